r"""Semismooth Newton on the dual of the graph problem, for one working set of pairs.

With one vector :math:`y_m` per penalty, the graph is a function of the dual point,

.. math:: a(y) = \max(0,\, b - \textstyle\sum_m T_m^*(y_m)) / (2\gamma),

and the dual to be maximised is concave, once differentiable and piecewise quadratic:

.. math:: D(y) = -\gamma \|a(y)\|^2 - \sum_m \Big(\frac{\|y_m\|^2}{4 w_m}
          + \langle y_m, \tau_m\rangle\Big), \qquad
          \nabla_m D = T_m(a(y)) - \tau_m - \frac{y_m}{2 w_m} .
"""

import dataclasses
import itertools
from dataclasses import dataclass

import numpy as np

from glnn.peers import ALONE, Peers
from glnn.solver.newton import ConcaveDual, ascend
from glnn.solver.pairs import Pairs
from glnn.solver.penalties import OnPairs, Penalty
from glnn.solver.preconditioner import preconditioner
from glnn.solver.problem import Problem

_MAX_CONJUGATE = 500


@dataclass(frozen=True, eq=False)
class WorkingProblem:
    """The problem restricted to a list of pairs: offsets and maps evaluated once."""

    pairs: Pairs
    offsets: np.ndarray
    maps: tuple[OnPairs, ...]
    curvature: float
    peers: Peers = ALONE

    @classmethod
    def of(cls, problem: Problem, pairs: Pairs) -> "WorkingProblem":
        """Evaluate ``b`` and the maps on the pairs."""
        maps = tuple(penalty.on(pairs) for penalty in problem.penalties)
        offsets = problem.linear.on_pairs(pairs)
        return cls(pairs, offsets, maps, problem.curvature, problem.peers)

    def shifted(self, constant: float) -> "WorkingProblem":
        """Return the same with ``constant`` added to every offset."""
        return dataclasses.replace(self, offsets=self.offsets + constant)

    def dot(self, first: np.ndarray, second: np.ndarray) -> float:
        """Return the inner product of two dual vectors, the same bits in every process."""
        return self.peers.broadcast(float(first @ second))

    def largest(self, values: np.ndarray) -> float:
        """Return the largest value on the pairs of all processes, at least 0."""
        return self.peers.all_reduce(float(values.max(initial=0.0)), "max")


@dataclass(frozen=True, eq=False)
class DualSolution:
    """The dual point, its graph on the pairs, and how it was reached."""

    dual: dict[str, np.ndarray]
    values: np.ndarray
    iterations: int
    converged: bool


class _Dual(ConcaveDual):
    """The dual as a function of one flat vector."""

    def __init__(self, working: WorkingProblem) -> None:
        self.working = working
        self.penalties: list[Penalty] = [m.penalty for m in working.maps]
        ends = np.cumsum([0, *(p.target.size for p in self.penalties)])
        self.slices = [slice(a, b) for a, b in itertools.pairwise(ends)]
        self.target = np.concatenate([np.empty(0), *(p.target for p in self.penalties)])
        self.inverse = np.concatenate(  # 1 / (2 w_m), entry by entry
            [np.empty(0), *(np.full(p.target.size, 0.5 / p.weight) for p in self.penalties)]
        )

    def numerator(self, y: np.ndarray) -> np.ndarray:
        """Return ``b - T*(y)`` on the pairs."""
        result = self.working.offsets.copy()
        for part, on_pairs in zip(self.slices, self.working.maps):
            result -= on_pairs.adjoint(y[part])
        return result

    def point(self, y: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the graph ``a(y)`` and the value ``-D(y)``."""
        values = np.maximum(self.numerator(y), 0.0) / (2 * self.working.curvature)
        own_squares = float((self.working.pairs.counts * values * values).sum())
        squares = self.working.peers.all_reduce(own_squares)
        fixed = self.working.dot(y, self.inverse * y / 2 + self.target)
        return values, self.working.curvature * squares + fixed

    def gradient(self, y: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return the gradient of ``-D``."""
        result: np.ndarray = self.inverse * y + self.target
        for part, on_pairs in zip(self.slices, self.working.maps):
            result[part] -= on_pairs.apply(values)
        return result

    def violation(self, gradient: np.ndarray) -> float:
        r"""Bound how far :math:`a` is from :math:`a(2 w (T(a) - \tau))`, entry by entry."""
        total = 0.0
        for part, penalty in zip(self.slices, self.penalties):
            total += penalty.largest_adjoint(2 * penalty.weight * gradient[part])
        return self.working.peers.broadcast(total / (2 * self.working.curvature))

    def newton_step(self, values: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        """Solve the Newton system by conjugate gradients."""
        return _newton_step(self, values > 0, gradient)

    def dot(self, first: np.ndarray, second: np.ndarray) -> float:
        """Return the inner product, the same bits in every process."""
        return self.working.dot(first, second)

    def largest(self, values: np.ndarray) -> float:
        """Return the largest entry on the pairs of all processes, at least 0."""
        return self.working.largest(values)

    def named(self, y: np.ndarray) -> dict[str, np.ndarray]:
        """Return the parts of ``y`` by the names of their penalties."""
        return {p.name: y[part].copy() for p, part in zip(self.penalties, self.slices)}

    def start(self, dual: dict[str, np.ndarray] | None) -> np.ndarray:
        """Return a flat start; parts that do not fit this problem start at zero."""
        y = np.zeros(self.target.size)
        for penalty, part in zip(self.penalties, self.slices):
            given = (dual or {}).get(penalty.name)
            if given is not None and given.shape == penalty.target.shape:
                y[part] = given
        return y


def solve_dual(
    working: WorkingProblem,
    start: dict[str, np.ndarray] | None = None,
    *,
    tol: float | int = 1e-8,
    max_iter: int = 100,
) -> DualSolution:
    """Maximise the dual by Newton steps; see :func:`glnn.solver.newton.ascend`."""
    dual = _Dual(working)
    found = ascend(dual, dual.start(start), tol=tol, max_iter=max_iter)
    return DualSolution(dual.named(found.y), found.values, found.iterations, found.converged)


def _newton_step(dual: _Dual, active: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    r"""Solve :math:`[\tfrac{1}{2w} + T 1_{active} T^*/(2\gamma)]\,d = -\nabla` approximately."""
    maps = [on_pairs.restrict(active) for on_pairs in dual.working.maps]
    scale = 1.0 / (2 * dual.working.curvature)

    def hessian(d: np.ndarray) -> np.ndarray:
        moved = np.zeros(int(active.sum()))
        for part, on_pairs in zip(dual.slices, maps):
            moved += on_pairs.adjoint(d[part])
        result: np.ndarray = dual.inverse * d
        for part, on_pairs in zip(dual.slices, maps):
            result[part] += scale * on_pairs.apply(moved)
        return result

    nearly_inverse = preconditioner(maps, dual.slices, dual.inverse, scale)
    residual = -gradient
    solution = np.zeros_like(residual)
    scaled = nearly_inverse(residual)
    direction, size = scaled.copy(), dual.working.dot(residual, scaled)
    goal = size * min(1e-2, max(size, 1e-18))  # loose while far from the solution
    for _ in range(_MAX_CONJUGATE):
        if size <= max(goal, 1e-300):
            break
        image = hessian(direction)
        length = size / dual.working.dot(direction, image)
        solution += length * direction
        residual -= length * image
        scaled = nearly_inverse(residual)
        size, previous = dual.working.dot(residual, scaled), size
        direction = scaled + (size / previous) * direction
    return solution
