"""Distances to other graphs: the prior graph, and the graph of a step before."""

import dataclasses
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.base import Adjacency
from glnn.graph.implicit import Implicit
from glnn.graph.pairs import Pairs, PairValues
from glnn.objective.base import Term
from glnn.objective.new_row import RowShare
from glnn.peers import ALONE, Partition


@dataclass(frozen=True, eq=False)
class Proximal(Term):
    r"""Distance to an earlier graph, :math:`\|A - A'\|_F^2`: a step goes no further than it pays.

    Parameters
    ----------
    weight
        How much the term counts.
    other
        The other graph; over several processes, this one's pairs of it.
    partition
        Who has which pairs; ``None``: all are here.

    Examples
    --------
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> Proximal(1.0, DenseAdjacency(torch.zeros(2, 2))).value(pair)
    tensor(2.)
    """

    weight: float | int
    other: Adjacency
    partition: Partition | None = None
    name: str = "proximal"

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        other = self.other
        at_pairs = other.entries(adj.rows(), adj.columns())
        difference = (adj.counts() * (adj.values() - at_pairs).square()).sum()
        everything = (other.counts() * other.values().square()).sum()
        seen = (adj.counts() * at_pairs.square()).sum()
        return difference + (everything - seen)  # entries that A does not store are zero in A

    @property
    def curvature(self) -> float | int:
        """The weight."""
        return self.weight

    def linear(self) -> Implicit:
        """Return twice the weight times the other graph."""
        rows, columns, values = self.other.rows(), self.other.columns(), self.other.values()
        kept = torch.nonzero((rows <= columns) & (values != 0)).view(-1)
        partition = self.partition or Partition(self.other.n_nodes, ALONE)
        pairs = Pairs(partition, rows[kept], columns[kept])
        return Implicit(sparse=PairValues(pairs, 2 * self.weight * values[kept].double()))

    def new_row(self, dual: Tensor | None) -> RowShare:
        """Return the squares of the links: the earlier graph has none of a new node."""
        return RowShare(edge_curvature=2 * self.weight, loop_curvature=self.weight)


@dataclass(frozen=True, eq=False)
class Closeness(Proximal):
    r"""Distance to the prior graph, :math:`\|A - G\|_F^2`. Paper: :math:`\mathcal{L}_{gt}`.

    Examples
    --------
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> Closeness(1.0, DenseAdjacency(torch.zeros(2, 2))).value(pair)
    tensor(2.)
    """

    name: str = "closeness"

    def new_row(self, dual: Tensor | None) -> RowShare:
        """Return the distance of the new links to the prior graph's row."""
        return dataclasses.replace(super().new_row(dual), prior=2 * self.weight)
