"""Semismooth Newton method for the dual of the graph problem on one working set of pairs.

Each Newton system is solved by preconditioned conjugate gradients; an Armijo line search damps the
steps.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glnn.graph.pairs import Pairs
from glnn.solver.problem import WorkingProblem

# Preconditioner

Apply = Callable[[Tensor], Tensor]
_BLOCK_ENTRIES = 2**23  # entries of one block of columns
_MAX_COUPLING_ENTRIES = 2**26  # beyond this the diagonal is the preconditioner


def make_preconditioner(working: WorkingProblem, active: Tensor, scale: float) -> Apply:
    r"""Return an approximate inverse of the Newton matrix.

    ``active`` is 1 for pairs with an edge and 0 for others; ``scale`` is :math:`1/(2\gamma)`.
    A penalty with few entries is eliminated by a Schur complement; otherwise the diagonal is used.
    """
    diagonal = torch.add(working.inverse, working.gram_diagonal(active), alpha=scale)
    small = [n for n, one in enumerate(working.maps) if one.matrix_rows(slice(0, 0)) is not None]
    schur = _eliminate_small(working, active, scale, diagonal, small[0]) if small else None
    return schur or (lambda residual: residual / diagonal)


def _eliminate_small(
    working: WorkingProblem, active: Tensor, scale: float, diagonal: Tensor, number: int
) -> Apply | None:
    """Treat one small penalty and one with a diagonal bound jointly, the rest by the diagonal.

    ``None`` if that is too large or not positive definite.
    """
    maps, problem = working.maps, working.problem
    layout, small = problem.signal.layout, problem.slices[number]
    rows, own, bounded = slice(0, 0), diagonal[:0], None
    for part, other in zip(problem.slices, maps):
        bound = other.gram_bound(active)
        if bound is not None:
            rows, own, bounded = part, bound, other
    width, height = small.stop - small.start, rows.stop - rows.start
    if width * max(width, height) > _MAX_COUPLING_ENTRIES:
        return None
    energy, coupling = diagonal.new_zeros(width, width), diagonal.new_zeros(height, width)
    step, n_pairs = max(1, _BLOCK_ENTRIES // max(1, width)), len(working.pairs)
    weight = active * working.pairs.counts
    for first in range(0, n_pairs, step):
        place = slice(first, min(first + step, n_pairs))
        columns = maps[number].matrix_rows(place)
        assert columns is not None  # as for no pairs at all
        energy += columns.T @ (columns * weight[place, None])
        if bounded is not None:
            coupling += bounded.cross_gram(active, columns, place)
    row_block = working.inverse[rows] + scale * layout.sum(own)
    coupling = scale * layout.sum(coupling)
    schur = scale * layout.sum(energy)
    schur.diagonal().add_(working.inverse[small])
    schur -= coupling.T @ (coupling / row_block[:, None])
    factor, failed = torch.linalg.cholesky_ex(schur)
    if layout.agree(float(failed)):
        return None

    def apply(residual: Tensor) -> Tensor:
        result = residual / diagonal
        on_rows = residual[rows] / row_block
        rest = residual[small] - coupling.T @ on_rows
        energy = torch.cholesky_solve(rest[:, None], factor)[:, 0]
        result[small] = energy
        result[rows] = on_rows - (coupling @ energy) / row_block
        return result

    return apply


# Newton steps

_MAX_CG_STEPS = 500


def newton_step(working: WorkingProblem, values: Tensor, gradient: Tensor) -> tuple[Tensor, bool]:
    r"""Solve :math:`[\tfrac{1}{2w} + T 1_{active} T^*/(2\gamma)]\,d = -\nabla` approximately.

    Also returns whether conjugate gradients reached their tolerance. The loop reads only one
    number per step from the device.
    """
    active = (values > 0).double()
    scale = 1.0 / (2 * working.problem.curvature)
    precondition = make_preconditioner(working, active, scale)
    residual = -gradient
    solution = torch.zeros_like(residual)
    scaled = precondition(residual)
    direction, size = scaled, working.dot(residual, scaled)
    goal = size * min(1e-2, max(size, 1e-18))  # loose while far from the solution
    for _ in range(_MAX_CG_STEPS):
        if size <= max(goal, 1e-300):
            return solution, True
        moved = working.adjoint(direction).mul_(active)
        image = torch.add(working.inverse * direction, working.apply(moved), alpha=scale)
        curved = direction.dot(image)
        length = torch.where(curved > 0, size / curved, 0.0)  # rounding may make it 0 or negative
        solution.addcmul_(direction, length)
        residual.addcmul_(image, length, value=-1)
        scaled = precondition(residual)
        size, previous = working.dot(residual, scaled), size
        if size == previous or not math.isfinite(size):
            break
        direction = torch.add(scaled, direction, alpha=size / previous)
    return solution, False


# Semismooth Newton

TOL = 1e-8  # accuracy of the entries
_MAX_STEPS = 100
_MAX_HALVINGS = 40
_ROUNDING = 1e-13  # relative error of a dual value
_MAX_STALLED = 3  # consecutive steps whose decrease is smaller than rounding
_SLOW = "conjugate gradients did not end in a Newton step: the penalties are strongly coupled"
_STALLED = "rounding hides every further step: a penalty is very strong beside the curvature"


@dataclass(frozen=True, eq=False)
class Solution:
    """Solution of the graph problem on one working set of pairs."""

    pairs: Pairs
    values: Tensor  # the graph on the pairs
    dual: Tensor
    iterations: int  # Newton steps, of all rounds
    reason: str = ""  # why it did not converge; empty if it did
    rounds: int = 1  # working sets so far


@dataclass(frozen=True, eq=False)
class _Point:
    """A dual point with its graph, value, gradient and violation."""

    y: Tensor
    values: Tensor
    value: float
    gradient: Tensor
    violation: float

    @classmethod
    def of(cls, working: WorkingProblem, y: Tensor, values: Tensor, value: float) -> "_Point":
        gradient = working.gradient(y, values)
        violation = working.violation(gradient) if len(y) else 0.0
        return cls(y, values, value, gradient, violation)


def solve_dual(
    working: WorkingProblem, start: Tensor | None = None, *, tol: float = TOL
) -> Solution:
    """Maximise the dual by Newton steps with an Armijo line search.

    Stops when the violation is at most ``tol`` times the scale of the graph's entries
    (:func:`glnn.solver.problem.violation_scale`).
    """
    y = torch.zeros_like(working.problem.target) if start is None else start
    point = best = _Point.of(working, y, *working.evaluate(y))
    iterations, n_stalled, reason = 0, 0, ""
    while not point.violation <= tol * working.violation_scale(point.values):  # it may be NaN
        if iterations >= _MAX_STEPS or n_stalled >= _MAX_STALLED:
            reason = reason or f"{_MAX_STEPS} Newton steps were not enough"
            return Solution(working.pairs, best.values, best.y, iterations, reason)
        step, is_solved = newton_step(working, point.values, point.gradient)
        reason = "" if is_solved else _SLOW
        moved = _line_search(working, point, step) or _short_step(working, point)
        n_stalled = n_stalled + 1 if moved is None else 0
        if moved is None:
            y = point.y + step
            moved = _Point.of(working, y, *working.evaluate(y))
        point, iterations = moved, iterations + 1
        best = min(best, point, key=lambda one: one.violation)
        if n_stalled >= _MAX_STALLED:
            reason = reason or _STALLED
    return Solution(working.pairs, point.values, point.y, iterations)


def _short_step(working: WorkingProblem, point: _Point) -> _Point | None:
    """Step as if all pairs were active; used if new edges along a Newton step spoil it."""
    every = torch.ones_like(point.values)
    return _line_search(working, point, newton_step(working, every, point.gradient)[0])


def _line_search(working: WorkingProblem, point: _Point, step: Tensor) -> _Point | None:
    """Halve the step until the value decreases enough; ``None`` if rounding hides it."""
    slope = working.dot(point.gradient, step)
    slack, length = _ROUNDING * abs(point.value), 1.0
    for _ in range(_MAX_HALVINGS):
        y = torch.add(point.y, step, alpha=length)
        values, value = working.evaluate(y)
        if value <= point.value + 1e-4 * length * slope + slack:
            return _Point.of(working, y, values, value)
        length /= 2
    return None
