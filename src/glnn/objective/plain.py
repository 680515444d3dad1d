"""The terms that need nothing but the graph: sparsity, symmetry, ridge."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from glnn.graph.base import Adjacency
from glnn.graph.implicit import Implicit
from glnn.objective.base import Term
from glnn.objective.new_row import RowShare, number


@dataclass(frozen=True, eq=False)
class Sparsity(Term):
    r"""Sum of absolute weights, :math:`\|A\|_1`. Paper: eq:sparsity_constraint.

    Examples
    --------
    >>> Sparsity(1.0).value(DenseAdjacency(torch.tensor([[0.0, -1.0], [-1.0, 0.0]])))
    tensor(2.)
    """

    weight: float | int
    name: str = "sparsity"
    sets_degree: ClassVar[bool] = True

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        return (adj.counts() * adj.values().abs()).sum()

    def linear(self) -> Implicit:
        r"""Return :math:`-\lambda_1`: the graph is not negative."""
        return Implicit(constant=-self.weight)

    def new_row(self, dual: Tensor | None) -> RowShare:
        """Return the cost of every link."""
        return RowShare(edges=number(-self.weight), loop=-self.weight / 2)


@dataclass(frozen=True, eq=False)
class Symmetry(Term):
    r"""Distance to the transpose, :math:`\|A^\top - A\|_F^2`. Paper: eq:properties_constraints.

    Zero for the solver, whose graphs are symmetric.

    Examples
    --------
    >>> Symmetry(1.0).value(DenseAdjacency(torch.tensor([[0.0, 1.0], [0.0, 0.0]])))
    tensor(2.)
    """

    weight: float | int
    name: str = "symmetry"
    is_constant: ClassVar[bool] = True

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        return adj.asymmetry()

    def new_row(self, dual: Tensor | None) -> RowShare:
        """Return nothing: the enlarged graph is symmetric, too."""
        return RowShare()


@dataclass(frozen=True, eq=False)
class Ridge(Term):
    r"""Squared norm, :math:`\|A\|_F^2`: makes the problem strictly convex without a prior graph.

    Notes
    -----
    Differs from the paper, whose loss has no minimum when there is no prior graph.

    Examples
    --------
    >>> Ridge(1.0).value(DenseAdjacency(torch.tensor([[0.0, 3.0], [3.0, 0.0]])))
    tensor(18.)
    """

    weight: float | int
    name: str = "ridge"

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        return (adj.counts() * adj.values().square()).sum()

    @property
    def curvature(self) -> float | int:
        """The weight."""
        return self.weight

    def new_row(self, dual: Tensor | None) -> RowShare:
        """Return the same for the links."""
        return RowShare(edge_curvature=2 * self.weight, loop_curvature=self.weight)
