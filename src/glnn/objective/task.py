"""The linear term that a task adds: how much each edge costs it."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from glnn.graph.base import Adjacency
from glnn.graph.implicit import Factor, Implicit
from glnn.graph.pairs import PairValues
from glnn.graph.spread import SpreadRows
from glnn.objective.base import Term
from glnn.objective.new_row import RowShare


@dataclass(frozen=True, eq=False)
class Task(Term):
    r"""The cost of the graph for a task, :math:`\langle C, A\rangle`, of low rank.

    .. math:: c_{ij} = \tfrac12 (u_i \cdot v_j + u_j \cdot v_i) + o_{ij}

    Parameters
    ----------
    left, right
        The rows :math:`u_i, v_i` side by side, and :math:`v_i, u_i`.
    offset
        Further costs :math:`o` on single pairs.

    Examples
    --------
    >>> from glnn.graph.spread import spread
    >>> left = spread(torch.tensor([[1.0, 3.0], [2.0, 4.0]]))
    >>> right = spread(torch.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> Task(left, right).value(DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]])))
    tensor(10.)
    """

    left: SpreadRows
    right: SpreadRows
    offset: PairValues | None = None
    weight: float | int = 1.0
    name: str = "task"

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        rows, columns = adj.rows(), adj.columns()
        costs = self.left.own.dots(self.right.own, rows, columns) / 2
        if self.offset is not None:
            at = self.offset.pairs.adjacency(self.offset.values)
            costs = costs + at.entries(rows, columns)
        return (adj.counts() * adj.values() * costs).sum()

    def linear(self) -> Implicit:
        """Return the costs, negative."""
        sparse = None if self.offset is None else self.offset.times(-self.weight)
        factor = Factor(self.left, self.right, -self.weight / 2)
        return Implicit(sparse=sparse, factors=(factor,))

    def new_row(self, dual: Tensor | None) -> RowShare:
        """Return nothing: what edges of a new node cost the task is not known."""
        return RowShare()
