"""All terms of the objective but smoothness: properties, distances to graphs, cost of a task."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.pairs import (
    Adjacency,
    ImplicitMatrix,
    LowRankPart,
    Pairs,
    ShardedRows,
    SparseAdjacency,
)
from glnn.graph.rows import CsrMatrix
from glnn.objective.base import Coupling, PairMap, QuadraticTerm, RowCoefficients, Term


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
        return adj.to_dense().abs().sum()

    def linear(self) -> ImplicitMatrix:
        r"""Return :math:`-\lambda_1` for every entry, since :math:`A \ge 0`."""
        return ImplicitMatrix(constant=-self.weight)

    def new_row(self, dual: Tensor) -> RowCoefficients:
        """Return the cost of each link."""
        return RowCoefficients(edges=-self.weight, loop=-self.weight / 2)


@dataclass(frozen=True, eq=False)
class Symmetry(Term):
    r"""Distance to the transpose, :math:`\|A^\top - A\|_F^2`. Paper: eq:properties_constraints.

    It is zero in the solver, whose graphs are symmetric.

    Examples
    --------
    >>> Symmetry(1.0).value(DenseAdjacency(torch.tensor([[0.0, 1.0], [0.0, 0.0]])))
    tensor(2.)
    """

    weight: float | int
    name: str = "symmetry"
    is_constant: ClassVar[bool] = True

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        matrix = adj.to_dense()
        return (matrix.T - matrix).square().sum()

    def new_row(self, dual: Tensor) -> RowCoefficients:
        """Return no coefficients: the graph with the new node is symmetric, too."""
        return RowCoefficients()


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
        return adj.to_dense().square().sum()

    @property
    def curvature(self) -> float | int:
        """The weight."""
        return self.weight

    def new_row(self, dual: Tensor) -> RowCoefficients:
        """Return the squares of the links."""
        return RowCoefficients(edge_curvature=2 * self.weight, loop_curvature=self.weight)


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

    def adjoint(self, y: Tensor) -> ImplicitMatrix:
        """Return the identity times y."""
        return ImplicitMatrix(loop=float(y[0]))

    def pair_map(self, pairs: Pairs) -> PairMap:
        """Return the map on the diagonal pairs."""
        return LoopsMap(self, pairs)

    def new_row(self, dual: Tensor) -> RowCoefficients:
        r"""Return :math:`\lambda_4 (t + a_0)^2` with :math:`t` the trace."""
        return RowCoefficients(loop_curvature=self.weight, loop=-float(dual[0]) / 2)


class LoopsMap(PairMap):
    """The trace: its adjoint is zero on all pairs but loops."""

    def add_adjoint(self, total: Tensor, y: Tensor) -> None:  # noqa: D102
        total.index_add_(0, self.pairs.loops, y.expand(len(self.pairs.loops)))

    def gram_diagonal(self, active: Tensor) -> Tensor:
        """Return the number of loops."""
        return self.apply(active)


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

    def adjoint(self, y: Tensor) -> ImplicitMatrix:
        """Return the mean of y at the two ends of a pair."""
        return ImplicitMatrix(nodes=y / 2)

    def pair_map(self, pairs: Pairs) -> PairMap:
        """Return the map by one sparse matrix."""
        return RowSumsMap(self, pairs)

    def new_row(self, dual: Tensor) -> RowCoefficients:
        r"""Return the coefficients of :math:`\lambda_3[(\rho - 1)^2 + \sum_j (r_j + a_j - 1)^2]`.

        :math:`\rho = a_0 + \sum_j a_j` is the row sum of the new node.
        """
        coupling = Coupling(float(self.weight), 1.0, 1.0, 1.0)
        return RowCoefficients(edge_curvature=self.weight, edges=-dual / 2, couplings=(coupling,))


class RowSumsMap(PairMap):
    """Sums over the pairs of each node; the adjoint sums over the two ends of each pair."""

    @cached_property
    def _sums(self) -> Tensor:
        pattern = self.pairs.pattern
        ones = torch.ones_like(pattern.values, dtype=torch.float64)
        return CsrMatrix(ones, pattern.values, pattern.starts, len(self.pairs)).tensor

    def apply(self, values: Tensor) -> Tensor:  # noqa: D102
        return torch.mv(self._sums, values)

    def adjoint(self, y: Tensor) -> Tensor:  # noqa: D102
        half = y / 2
        return half.index_select(0, self.pairs.i).add_(half.index_select(0, self.pairs.j))

    def gram_diagonal(self, active: Tensor) -> Tensor:
        """Return half the number of active pairs of each node, loops counted twice."""
        return self.apply(active / self.pairs.counts)

    def gram_bound(self, active: Tensor) -> Tensor | None:
        """Return twice the diagonal: off-diagonal entries of a row sum up to at most that."""
        return 2 * self.gram_diagonal(active)

    def cross_gram(self, active: Tensor, columns: Tensor, place: slice) -> Tensor:
        """Return the sums of the other map's rows over the pairs of each node."""
        result = columns.new_zeros(self.pairs.n_nodes, columns.shape[1])
        weighted = columns * (active[place] * self.pairs.counts[place] / 2)[:, None]
        for ends in (self.pairs.i, self.pairs.j):
            result.index_add_(0, ends[place], weighted)
        return result


@dataclass(frozen=True, eq=False)
class Closeness(Term):
    r"""Distance to the prior graph, :math:`\|A - G\|_F^2`. Paper: :math:`\mathcal{L}_{gt}`.

    Examples
    --------
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> Closeness(1.0, DenseAdjacency(torch.zeros(2, 2))).value(pair)
    tensor(2.)
    """

    weight: float | int
    prior: Adjacency  # with several processes, the pairs of this one
    name: str = "closeness"

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        return (adj.to_dense() - self.prior.to_dense()).square().sum()

    @property
    def curvature(self) -> float | int:
        """The weight."""
        return self.weight

    def linear(self) -> ImplicitMatrix:
        """Return twice the weight times the prior graph."""
        assert isinstance(self.prior, SparseAdjacency)  # as the solver stores it
        scaled = 2 * self.weight * self.prior.values.double()
        return ImplicitMatrix(sparse=SparseAdjacency(self.prior.pairs, scaled))

    def new_row(self, dual: Tensor) -> RowCoefficients:
        """Return the squared distance of the new links to their row of the prior graph."""
        twice = 2 * self.weight
        return RowCoefficients(edge_curvature=twice, loop_curvature=self.weight, prior=twice)


@dataclass(frozen=True, eq=False)
class TaskCost(Term):
    r"""The cost of the graph for a task, :math:`\langle C, A\rangle`, with thin factors.

    .. math:: c_{ij} = \tfrac12 (u_i \cdot v_j + u_j \cdot v_i)
    """

    left: ShardedRows  # the rows :math:`(u_i, v_i)`
    right: ShardedRows  # the rows :math:`(v_i, u_i)`
    weight: float | int = 1.0
    name: str = "task"

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        costs = self.left.local.to_dense() @ self.right.local.to_dense().T / 2
        return (adj.to_dense() * costs).sum()

    def linear(self) -> ImplicitMatrix:
        """Return the negative costs."""
        return ImplicitMatrix(factors=(LowRankPart(self.left, self.right, -self.weight / 2),))

    def new_row(self, dual: Tensor) -> RowCoefficients:
        """Return no coefficients: the cost of a new node's links is not known."""
        return RowCoefficients()
