"""The convex graph problem: its standard form, its primal and dual values, and its dual.

:class:`Problem` is the problem over all pairs. :class:`WorkingProblem` is the same problem on a
list of pairs; :mod:`glnn.solver.newton` solves its dual.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import scipy.sparse as sp
import torch
from torch import Tensor

from glnn.exceptions import ProblemError
from glnn.graph.pairs import ImplicitMatrix, Pairs, ShardedRows, SparseAdjacency
from glnn.objective import Objective, QuadraticTerm, Term
from glnn.objective.base import PairMap, RowCoefficients


@dataclass(frozen=True, eq=False)
class Problem:
    r"""Minimise over symmetric :math:`A \ge 0` on the support.

    .. math:: \gamma\|A\|^2 - \langle B, A\rangle + \sum_m w_m \|T_m(A) - \tau_m\|^2 .
    """

    objective: Objective  # its terms with a positive weight are used
    signal: ShardedRows  # of the nodes; it says which rows and pairs are in this process
    support: Pairs | None = None  # this process's pairs that may become edges; None: all pairs

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.signal.layout.n_nodes

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms with a positive weight."""
        return tuple(term for term in self.objective.parts if term.weight > 0)

    def evaluate_terms(self, adjacency: sp.csr_matrix) -> dict[str, float]:
        """Return the weighted value of each term for a graph."""
        graph = SparseAdjacency.from_scipy(adjacency)
        return {term.name: float(term.weight * term.value(graph)) for term in self.terms}

    @cached_property
    def curvature(self) -> float:
        r"""The number :math:`\gamma`; it must be positive for a unique minimum."""
        total = float(sum(term.curvature for term in self.terms))
        if total <= 0:
            raise ProblemError(
                "the graph problem needs weights.closeness > 0 with a given graph, or "
                "weights.ridge > 0: without either it has no unique minimum. "
                "Give a graph, or use Weights.without_prior()."
            )
        return total

    @cached_property
    def linear(self) -> ImplicitMatrix:
        """The matrix :math:`B`, never formed."""
        return sum((term.linear() for term in self.terms), start=ImplicitMatrix())

    @cached_property
    def penalties(self) -> tuple[QuadraticTerm, ...]:
        """The quadratic penalties."""
        return tuple(term for term in self.terms if isinstance(term, QuadraticTerm))

    @cached_property
    def slices(self) -> list[slice]:
        """The slice of each penalty in a dual vector, which has those of all penalties in turn."""
        ends = itertools.accumulate((len(p.target) for p in self.penalties), initial=0)
        return [slice(a, b) for a, b in itertools.pairwise(ends)]

    @cached_property
    def target(self) -> Tensor:
        r"""The concatenated vectors :math:`\tau_m`, in double precision."""
        none = torch.empty(0, dtype=torch.float64, device=self.signal.local.device)
        return torch.cat([none, *(p.target for p in self.penalties)])

    @cached_property
    def strength(self) -> Tensor:
        """The numbers :math:`2 w_m`, one for each entry of a dual vector."""
        strength = torch.empty_like(self.target)
        for penalty, part in zip(self.penalties, self.slices):
            strength[part] = 2 * penalty.weight
        return strength

    def with_degree_weight(self, weight: float) -> "Problem":
        """Return the problem with another weight of the term that controls the degree."""
        return dataclasses.replace(self, objective=self.objective.with_degree_weight(weight))

    def correction(self, dual: Tensor) -> ImplicitMatrix:
        r"""Return :math:`C = -\sum_m T_m^*(y_m)`; A is the positive part of (B + C)/(2 gamma)."""
        parts = (p.adjoint(-dual[part]) for p, part in zip(self.penalties, self.slices))
        return sum(parts, start=ImplicitMatrix())

    def gather_parts(self, parts: Iterable[Tensor]) -> Tensor:
        """Concatenate one vector for each penalty and sum them over all processes."""
        return self.signal.layout.sum(torch.cat([self.target[:0], *parts]))

    def images(self, pairs: Pairs, values: Tensor) -> Tensor:
        r"""Return :math:`T_m(A)` of a graph, given the values on this process's pairs."""
        return self.gather_parts(p.pair_map(pairs).apply(values) for p in self.penalties)

    def dual_of(self, images: Tensor) -> Tensor:
        r"""Return the dual point of a graph, :math:`y_m = 2 w_m (T_m(A) - \tau_m)`."""
        return self.strength * (images - self.target)

    def primal_value(self, pairs: Pairs, values: Tensor, images: Tensor, gains: Tensor) -> float:
        """Return the objective of the graph with these values on the pairs, up to a constant.

        ``gains`` are the entries of :math:`B`.
        """
        own = (pairs.counts * values).dot(self.curvature * values - gains)
        misfit = images - self.target
        return self.signal.layout.sum(float(own)) + float((self.strength * misfit).dot(misfit)) / 2

    def dual_value(self, dual: Tensor, squares: float) -> float:
        r"""Return :math:`-\gamma\|A(y)\|^2 - \sum_m \|y_m\|^2/(4 w_m) + \langle y_m,\tau_m\rangle`.

        ``squares`` is :math:`\|A(y)\|^2` over the whole support.
        """
        penalties = float((dual / self.strength).dot(dual)) / 2 + float(dual.dot(self.target))
        return -self.curvature * squares - penalties

    def split_dual(self, dual: Tensor) -> dict[str, Tensor]:
        """Return the part of each term by its name, empty for those that are not penalties."""
        none = {term.name: dual[:0] for term in self.terms}
        return none | {p.name: dual[part] for p, part in zip(self.penalties, self.slices)}

    def new_row(self, dual: Tensor) -> RowCoefficients:
        """Return the problem of one new row: the sum of the terms' coefficients, on the CPU."""
        parts = self.split_dual(dual)
        shares = [term.new_row(parts[term.name]).cpu() for term in self.terms]
        return sum(shares, start=RowCoefficients())

    def starting_pairs(self, candidates: tuple[Tensor, Tensor]) -> Pairs:
        """Return this process's first working set: loops, candidates, pairs that a term lists."""
        layout = self.signal.layout
        own = torch.arange(layout.start, layout.stop, device=candidates[0].device)
        ends = [candidates, (own, own)]
        if self.linear.sparse is not None:
            ends.append((self.linear.sparse.pairs.i, self.linear.sparse.pairs.j))
        return Pairs.union(layout, ends)


# Accuracy

_SMALL = 0.01  # below this the scale of violations is 100 times the largest entry instead of 1
_ROUNDING = 1e-6  # relative to the gains: smaller entries cannot be told from rounding


def nonnegative_max(values: Tensor) -> float:
    """Return the maximum of the values and 0; infinity if a value is NaN."""
    found = float(values.max()) if len(values) else 0.0
    return math.inf if math.isnan(found) else max(0.0, found)


def violation_scale(entry: float, gain: float) -> float:
    """Return the scale of violations for a graph with largest entry ``entry``.

    It is 1 for usual graphs, the largest entry if that is above 1, and less than 1 if all entries
    are tiny: otherwise any graph of tiny entries would pass. It is 0 if an entry is not finite,
    so that no violation is small enough. ``gain`` is the largest entry (in absolute value) that
    the linear terms alone would give.
    """
    if not math.isfinite(entry):
        return 0.0
    return max(entry, min(1.0, entry / _SMALL), _ROUNDING * gain)


# The dual on a working set


@dataclass(frozen=True, eq=False)
class WorkingProblem:
    """The problem restricted to a list of pairs; offsets and maps are evaluated once."""

    problem: Problem
    pairs: Pairs  # those of this process
    offsets: Tensor  # the entries b of B on the pairs
    maps: tuple[PairMap, ...]  # the maps T_m of the penalties, on the pairs

    @classmethod
    def of(cls, problem: Problem, pairs: Pairs) -> "WorkingProblem":
        """Evaluate the offsets and the maps on the pairs."""
        maps = tuple(penalty.pair_map(pairs) for penalty in problem.penalties)
        return cls(problem, pairs, problem.linear.on_pairs(pairs), maps)

    def shift_offsets(self, constant: float) -> "WorkingProblem":
        """Return the problem with ``constant`` added to every offset."""
        return dataclasses.replace(self, offsets=self.offsets + constant)

    @cached_property
    def inverse(self) -> Tensor:
        """Return :math:`1 / (2 w_m)` for every entry of a dual vector."""
        return 1 / self.problem.strength

    def adjoint(self, y: Tensor) -> Tensor:
        """Return :math:`T^*(y)` on the pairs."""
        total = torch.zeros_like(self.offsets)
        for part, pair_map in zip(self.problem.slices, self.maps):
            pair_map.add_adjoint(total, y[part])
        return total

    def apply(self, values: Tensor) -> Tensor:
        """Return :math:`T(a)`, summed over all processes."""
        return self.problem.gather_parts(pair_map.apply(values) for pair_map in self.maps)

    def gram_diagonal(self, active: Tensor) -> Tensor:
        """Return the diagonal of :math:`T T^*` over the active pairs, summed over all processes."""
        return self.problem.gather_parts(pair_map.gram_diagonal(active) for pair_map in self.maps)

    def evaluate(self, y: Tensor) -> tuple[Tensor, float]:
        """Return the graph ``a(y)`` and the negated dual value ``-D(y)``."""
        values = (self.offsets - self.adjoint(y)).clamp_(min=0).div_(2 * self.problem.curvature)
        layout, curvature = self.problem.signal.layout, self.problem.curvature
        squares = layout.sum((self.pairs.counts * values).dot(values))
        fixed = torch.addcmul(self.problem.target, self.inverse, y, value=0.5).dot(y)
        return values, layout.agree(float(fixed + curvature * squares))

    def gradient(self, y: Tensor, values: Tensor) -> Tensor:
        """Return the gradient of ``-D``."""
        return torch.addcmul(self.problem.target, self.inverse, y) - self.apply(values)

    def violation(self, gradient: Tensor) -> float:
        r"""Bound how far :math:`a` is from :math:`a(2 w (T(a) - \tau))`, entry by entry."""
        found = self.global_max(self.adjoint(gradient / self.inverse).abs())
        return found / (2 * self.problem.curvature)

    def global_max(self, values: Tensor) -> float:
        """Return :func:`nonnegative_max` over the pairs of all processes."""
        return self.problem.signal.layout.max(nonnegative_max(values))

    @cached_property
    def gain(self) -> float:
        """Return the largest absolute entry that the linear terms alone would give."""
        return self.global_max(self.offsets.abs()) / (2 * self.problem.curvature)

    def violation_scale(self, values: Tensor) -> float:
        """Return the scale of violations for the graph with these values."""
        return violation_scale(self.global_max(values), self.gain)

    def dot(self, first: Tensor, second: Tensor) -> float:
        """Return the inner product of two dual vectors, bit-identical in every process."""
        return self.problem.signal.layout.agree(float(first.dot(second)))

    def complete_dual(self, y: Tensor, values: Tensor) -> Tensor:
        """Return the dual point with the entries set that no pair of the working set depends on.

        Such an entry (of a node without pairs, for example) is arbitrary on the working set, but
        it matters for pairs that are checked later and for new nodes. It gets the value that the
        graph implies.
        """
        reached = self.gram_diagonal(torch.ones_like(self.offsets))
        return torch.where(reached == 0, y - self.gradient(y, values) / self.inverse, y)
