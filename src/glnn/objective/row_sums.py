"""The penalty on row sums."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from glnn.graph.base import Adjacency
from glnn.graph.implicit import Implicit
from glnn.graph.pairs import Pairs
from glnn.objective.base import QuadraticTerm
from glnn.objective.new_row import Coupling, RowShare, number
from glnn.objective.pair_map import PairMap


@dataclass(frozen=True, eq=False)
class RowSums(QuadraticTerm):
    r"""Distance of the row sums from one, :math:`\|A 1 - 1\|^2`. Paper: eq:properties_constraints.

    As a penalty, :math:`T(A) = A 1` and :math:`T^*(y)_{ij} = (y_i + y_j)/2`.

    Examples
    --------
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 3.0], [3.0, 0.0]]))
    >>> RowSums(1.0, like=torch.ones(2)).value(pair)
    tensor(8.)
    """

    weight: float | int
    like: Tensor
    name: str = "row_sums"

    @property
    def target(self) -> Tensor:
        """Ones."""
        return torch.ones_like(self.like)

    def image(self, adj: Adjacency) -> Tensor:
        """Return the row sums."""
        return adj.row_sums()

    def adjoint(self, y: Tensor) -> Implicit:
        """Return the mean of the two ends."""
        return Implicit(nodes=y / 2)

    def on(self, pairs: Pairs) -> PairMap:
        """Return the map through one sparse matrix each way."""
        return RowSumsMap(pairs)

    def new_row(self, dual: Tensor | None) -> RowShare:
        r"""Return :math:`\lambda_3[(\rho - 1)^2 + \sum_j (r_j + a_j - 1)^2]` in the edges.

        :math:`\rho = a_0 + \sum_j a_j` is the row sum of the new node.
        """
        assert dual is not None  # it is a penalty
        coupling = Coupling(float(self.weight), number(1), 1.0, 1.0)
        return RowShare(edge_curvature=self.weight, edges=-dual / 2, couplings=(coupling,))


class RowSumsMap(PairMap):
    """Sums over the pairs of each node, and sums of both ends of each pair."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    @cached_property
    def _sums(self) -> Tensor:
        pattern = self.pairs.pattern
        ones = torch.ones(len(pattern.source), dtype=torch.float64, device=pattern.source.device)
        shape = (self.pairs.n_nodes, len(self.pairs))
        return (
            type(pattern)
            .compressed(shape, pattern.offsets, pattern.source, pattern.source)
            .matrix(ones)
        )

    def apply(self, values: Tensor) -> Tensor:  # noqa: D102
        return torch.mv(self._sums, values)

    def adjoint(self, y: Tensor) -> Tensor:  # noqa: D102
        half = y / 2
        return half.index_select(0, self.pairs.i).add_(half.index_select(0, self.pairs.j))

    def squares(self, active: Tensor) -> Tensor:
        """Return half the number of neighbours, a loop counting twice."""
        return self.apply(active / self.pairs.counts)

    def bound(self, active: Tensor) -> Tensor | None:
        """Return twice the same: the matrix has as much beside its diagonal as on it."""
        return 2 * self.squares(active)

    def coupled(self, active: Tensor, columns: Tensor, place: slice) -> Tensor:
        """Return the sums over the pairs of each node of the other map's rows."""
        result = columns.new_zeros(self.pairs.n_nodes, columns.shape[1])
        weighted = columns * (active[place] * self.pairs.counts[place] / 2)[:, None]
        for ends in (self.pairs.i, self.pairs.j):
            result.index_add_(0, ends[place], weighted)
        return result
