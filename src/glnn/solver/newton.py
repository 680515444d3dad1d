"""Semismooth Newton method for the dual of the graph problem on one working set of pairs.

Each Newton system is solved by preconditioned conjugate gradients; an Armijo line search damps the
steps.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glnn.solver.problem import Dual, WorkingProblem

# Preconditioner

Apply = Callable[[Tensor], Tensor]
_BLOCK_ENTRIES = 2**23  # entries of one block of columns
_MAX_COUPLING_ENTRIES = 2**26  # beyond this the diagonal is the preconditioner


def make_preconditioner(working: WorkingProblem, active: Tensor, scale: float) -> Apply:
    r"""Return an approximate inverse of the Newton matrix.

    ``active`` is 1 for pairs with an edge and 0 for others; ``scale`` is :math:`1/(2\gamma)`.
    Penalties with few entries are eliminated by a Schur complement; otherwise the diagonal is used.
    """
    diagonal = torch.add(working.inverse, working.gram_diagonal(active), alpha=scale)
    few = [k for k, m in enumerate(working.maps) if m.matrix_rows(slice(0, 0)) is not None]
    if not few:
        return lambda residual: residual / diagonal
    bounded = [k for k, m in enumerate(working.maps) if m.gram_bound(active) is not None]
    widths = [sum(_slice_length(working.slices[k]) for k in part) for part in (few, bounded)]
    if widths[0] * max(widths) > _MAX_COUPLING_ENTRIES:
        return lambda residual: residual / diagonal
    schur = _SchurPreconditioner(working, active, scale, diagonal, (few, bounded))
    return schur if schur.is_positive else lambda residual: residual / diagonal


def _slice_length(part: slice) -> int:
    return int(part.stop - part.start)


class _SchurPreconditioner:
    """Block preconditioner: small and bounded penalties solved jointly, the rest by the diagonal.

    ``parts`` holds the numbers of the small penalties and of those with a diagonal bound.
    """

    def __init__(
        self,
        working: WorkingProblem,
        active: Tensor,
        scale: float,
        diagonal: Tensor,
        parts: tuple[list[int], list[int]],
    ) -> None:
        few, bounded = parts
        self.diagonal = diagonal
        place = torch.arange(len(diagonal), device=diagonal.device)
        self.small = torch.cat([place[working.slices[k]] for k in few])
        self.rows = torch.cat([place[:0], *(place[working.slices[k]] for k in bounded)])
        bounds = [working.maps[k].gram_bound(active) for k in bounded]
        own = torch.cat([diagonal[:0], *(bound for bound in bounds if bound is not None)])
        self.row_block = working.inverse[self.rows] + scale * working.layout.sum(own)
        energy, coupling = _schur_blocks(working, active, few, bounded)
        self.coupling = scale * working.layout.sum(coupling)
        schur = scale * working.layout.sum(energy)
        schur.diagonal().add_(working.inverse[self.small])
        schur -= self.coupling.T @ (self.coupling / self.row_block[:, None])
        self.factor, failed = torch.linalg.cholesky_ex(schur)
        self.is_positive = working.layout.agree(float(failed)) == 0

    def __call__(self, residual: Tensor) -> Tensor:
        result = residual / self.diagonal
        on_rows = residual[self.rows] / self.row_block
        rest = residual[self.small] - self.coupling.T @ on_rows
        energy = torch.cholesky_solve(rest[:, None], self.factor)[:, 0]
        result[self.small] = energy
        result[self.rows] = on_rows - (self.coupling @ energy) / self.row_block
        return result


def _schur_blocks(
    working: WorkingProblem, active: Tensor, few: list[int], bounded: list[int]
) -> tuple[Tensor, Tensor]:
    """Return this process's share of the small block and of its coupling to the bounded ones."""
    width = sum(_slice_length(working.slices[k]) for k in few)
    height = sum(_slice_length(working.slices[k]) for k in bounded)
    energy = working.offsets.new_zeros(width, width)
    coupling = working.offsets.new_zeros(height, width)
    step, n_pairs = max(1, _BLOCK_ENTRIES // max(1, width)), len(working.pairs)
    weight = active * working.pairs.counts
    for first in range(0, n_pairs, step):
        place = slice(first, min(first + step, n_pairs))
        blocks = [working.maps[k].matrix_rows(place) for k in few]
        columns = torch.cat([part for part in blocks if part is not None], 1)
        energy += columns.T @ (columns * weight[place, None])
        parts = [working.maps[k].cross_gram(active, columns, place) for k in bounded]
        coupling += torch.cat([coupling[:0], *parts])
    return energy, coupling


# Newton steps

_MAX_CG_STEPS = 500


def newton_step(working: WorkingProblem, values: Tensor, gradient: Tensor) -> tuple[Tensor, bool]:
    r"""Solve :math:`[\tfrac{1}{2w} + T 1_{active} T^*/(2\gamma)]\,d = -\nabla` approximately.

    Also returns whether conjugate gradients reached their tolerance. The loop reads only one
    number per step from the device.
    """
    active = (values > 0).double()
    scale = 1.0 / (2 * working.curvature)
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

_MAX_HALVINGS = 40
_ROUNDING = 1e-13  # relative error of a dual value
_MAX_STALLED = 3  # consecutive steps whose decrease is smaller than rounding
_SLOW = "conjugate gradients did not end in a Newton step: the penalties are strongly coupled"
_STALLED = "rounding hides every further step: a penalty is very strong beside the curvature"


@dataclass(frozen=True, eq=False)
class DualSolution:
    """Solution of the dual on one working set."""

    dual: Dual
    values: Tensor  # the graph on the pairs
    iterations: int
    reason: str = ""  # why it did not converge; empty if it did


@dataclass(frozen=True, eq=False)
class _Point:
    """A dual point with its graph, value, gradient and violation."""

    y: Tensor
    values: Tensor
    value: float
    gradient: Tensor
    violation: float

    @classmethod
    def at(cls, working: WorkingProblem, y: Tensor) -> "_Point":
        values, value = working.evaluate(y)
        return cls.of(working, y, values, value)

    @classmethod
    def of(cls, working: WorkingProblem, y: Tensor, values: Tensor, value: float) -> "_Point":
        gradient = working.gradient(y, values)
        violation = working.violation(gradient) if len(y) else 0.0
        return cls(y, values, value, gradient, violation)


def solve_dual(
    working: WorkingProblem,
    start: Dual | None = None,
    *,
    tol: float | int = 1e-8,
    max_iter: int = 100,
) -> DualSolution:
    """Maximise the dual by Newton steps with an Armijo line search.

    Stops when the violation is at most ``tol`` times the scale of the graph's entries
    (:func:`glnn.solver.problem.violation_scale`).
    """
    point, best = _Point.at(working, working.flatten_dual(start)), None
    iterations, n_stalled, reason = 0, 0, ""
    while True:
        best = point if best is None or point.violation < best.violation else best
        if point.violation <= tol * working.violation_scale(point.values):
            reason = ""
            break
        if iterations >= max_iter or n_stalled >= _MAX_STALLED:
            point, reason = best, reason or f"{max_iter} Newton steps were not enough"
            break
        step, is_solved = newton_step(working, point.values, point.gradient)
        reason = "" if is_solved else _SLOW
        moved = _line_search(working, point, step) or _short_step(working, point)
        n_stalled = n_stalled + 1 if moved is None else 0
        point = _Point.at(working, point.y + step) if moved is None else moved
        iterations += 1
        if n_stalled >= _MAX_STALLED:
            reason = reason or _STALLED
    return DualSolution(working.unflatten_dual(point.y), point.values, iterations, reason)


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
