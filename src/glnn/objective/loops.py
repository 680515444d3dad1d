"""The penalty on the trace."""

from dataclasses import dataclass

from torch import Tensor

from glnn.graph.base import Adjacency
from glnn.graph.implicit import Implicit
from glnn.graph.pairs import Pairs
from glnn.objective.base import QuadraticTerm
from glnn.objective.new_row import RowShare
from glnn.objective.pair_map import PairMap


@dataclass(frozen=True, eq=False)
class Loops(QuadraticTerm):
    r"""Squared trace, :math:`|\operatorname{tr}(A)|^2`. Paper: eq:properties_constraints.

    As a penalty, :math:`T(A) = \operatorname{tr}(A)` and :math:`T^*(y) = y I`.

    Examples
    --------
    >>> loops = DenseAdjacency(torch.tensor([[1.0, 0.0], [0.0, 2.0]]))
    >>> Loops(1.0, like=torch.ones(2)).value(loops)
    tensor(9.)
    """

    weight: float | int
    like: Tensor
    name: str = "loops"

    @property
    def target(self) -> Tensor:
        """Zero."""
        return self.like.new_zeros(1)

    def image(self, adj: Adjacency) -> Tensor:
        """Return the trace."""
        return adj.trace()[None]

    def adjoint(self, y: Tensor) -> Implicit:
        """Return y times the identity."""
        return Implicit(loop=float(y[0]))

    def on(self, pairs: Pairs) -> PairMap:
        """Return the map on the diagonal pairs."""
        return LoopsMap(pairs)

    def new_row(self, dual: Tensor | None) -> RowShare:
        r"""Return :math:`\lambda_4 (t + a_0)^2` with :math:`t` the trace."""
        assert dual is not None  # it is a penalty
        return RowShare(loop_curvature=self.weight, loop=-float(dual[0]) / 2)


class LoopsMap(PairMap):
    """The trace, from the places of the loops among the pairs."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def apply(self, values: Tensor) -> Tensor:  # noqa: D102
        return values.index_select(0, self.pairs.loops).sum()[None]

    def adjoint(self, y: Tensor) -> Tensor:  # noqa: D102
        result = y.new_zeros(len(self.pairs))
        self.add_adjoint(result, y)
        return result

    def add_adjoint(self, total: Tensor, y: Tensor) -> None:  # noqa: D102
        total.index_add_(0, self.pairs.loops, y.expand(len(self.pairs.loops)))

    def squares(self, active: Tensor) -> Tensor:
        """Return the number of loops."""
        return self.apply(active)
