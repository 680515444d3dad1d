"""Semismooth Newton on the dual of the graph problem, for one working set of pairs."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from glnn.solver.problem import Dual, WorkingProblem

# --- preconditioner: What conjugate gradients are given to solve a Newton system in few steps

Apply = Callable[[Tensor], Tensor]
_AT_ONCE = 2**23  # entries of columns that are looked at together
_MOST = 2**26  # entries of the coupling of both blocks


def preconditioner(working: WorkingProblem, active: Tensor, scale: float) -> Apply:
    r"""Return an approximate inverse of the Newton matrix.

    Parameters
    ----------
    working
        The problem on its pairs.
    active
        One for pairs with an edge, zero for the others.
    scale
        :math:`1/(2\gamma)`.
    """
    diagonal = torch.add(working.inverse, working.squares(active), alpha=scale)
    few = [k for k, m in enumerate(working.maps) if m.columns(slice(0, 0)) is not None]
    if not few:
        return lambda residual: residual / diagonal
    bounded = [k for k, m in enumerate(working.maps) if m.bound(active) is not None]
    widths = [sum(_width(working.slices[k]) for k in part) for part in (few, bounded)]
    if widths[0] * max(widths) > _MOST:
        return lambda residual: residual / diagonal
    schur = _Schur(working, active, scale, diagonal, (few, bounded))
    return schur if schur.is_positive else lambda residual: residual / diagonal


def _width(part: slice) -> int:
    return int(part.stop - part.start)


class _Schur:
    """The small block and the bounded ones solved together, the rest by the diagonal."""

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
        bounds = [working.maps[k].bound(active) for k in bounded]
        own = torch.cat([diagonal[:0], *(bound for bound in bounds if bound is not None)])
        self.row_block = working.inverse[self.rows] + scale * working.peers.all_reduce(own)
        energy, coupling = _blocks(working, active, few, bounded)
        self.coupling = scale * working.peers.all_reduce(coupling)
        schur = scale * working.peers.all_reduce(energy)
        schur.diagonal().add_(working.inverse[self.small])
        schur -= self.coupling.T @ (self.coupling / self.row_block[:, None])
        self.factor, failed = torch.linalg.cholesky_ex(schur)
        self.is_positive = working.peers.broadcast(float(failed)) == 0

    def __call__(self, residual: Tensor) -> Tensor:
        result = residual / self.diagonal
        on_rows = residual[self.rows] / self.row_block
        rest = residual[self.small] - self.coupling.T @ on_rows
        energy = torch.cholesky_solve(rest[:, None], self.factor)[:, 0]
        result[self.small] = energy
        result[self.rows] = on_rows - (self.coupling @ energy) / self.row_block
        return result


def _blocks(
    working: WorkingProblem, active: Tensor, few: list[int], bounded: list[int]
) -> tuple[Tensor, Tensor]:
    r"""Return this process's share of :math:`E` and :math:`B`, some pairs at a time."""
    width = sum(_width(working.slices[k]) for k in few)
    height = sum(_width(working.slices[k]) for k in bounded)
    energy = working.offsets.new_zeros(width, width)
    coupling = working.offsets.new_zeros(height, width)
    step, n_pairs = max(1, _AT_ONCE // max(1, width)), len(working.pairs)
    weight = active * working.pairs.counts
    for first in range(0, n_pairs, step):
        place = slice(first, min(first + step, n_pairs))
        given = [working.maps[k].columns(place) for k in few]
        columns = torch.cat([part for part in given if part is not None], 1)
        energy += columns.T @ (columns * weight[place, None])
        parts = [working.maps[k].coupled(active, columns, place) for k in bounded]
        coupling += torch.cat([coupling[:0], *parts])
    return energy, coupling


# --- conjugate: One Newton system of the dual, solved approximately by conjugate gradients

_MAX_STEPS = 500


def newton_step(working: WorkingProblem, values: Tensor, gradient: Tensor) -> tuple[Tensor, bool]:
    r"""Solve :math:`[\tfrac{1}{2w} + T 1_{active} T^*/(2\gamma)]\,d = -\nabla` approximately.

    Also says whether the steps that are allowed were enough. The loop asks the device for one
    number a step.
    """
    active = (values > 0).double()
    scale = 1.0 / (2 * working.curvature)
    nearly_inverse = preconditioner(working, active, scale)
    residual = -gradient
    solution = torch.zeros_like(residual)
    scaled = nearly_inverse(residual)
    direction, size = scaled, working.dot(residual, scaled)
    goal = size * min(1e-2, max(size, 1e-18))  # loose while far from the solution
    for _ in range(_MAX_STEPS):
        if size <= max(goal, 1e-300):
            return solution, True
        moved = working.adjoint(direction).mul_(active)
        image = torch.add(working.inverse * direction, working.apply(moved), alpha=scale)
        curved = direction.dot(image)
        length = torch.where(curved > 0, size / curved, 0.0)  # rounding may leave nothing to gain
        solution.addcmul_(direction, length)
        residual.addcmul_(image, length, value=-1)
        scaled = nearly_inverse(residual)
        size, previous = working.dot(residual, scaled), size
        if size == previous or not math.isfinite(size):
            break
        direction = torch.add(scaled, direction, alpha=size / previous)
    return solution, False


# --- newton: Semismooth Newton on the dual of the graph problem, for one working set of pairs

_MAX_HALVINGS = 40
_ROUNDING = 1e-13  # relative error of a dual value
_STUCK = 3  # steps in a row that rounding may hide from the value


@dataclass(frozen=True, eq=False)
class DualSolution:
    """The dual point, its graph on the pairs, and how it was reached.

    ``reason`` says why it did not converge, and is empty if it did.
    """

    dual: Dual
    values: Tensor
    iterations: int
    reason: str = ""


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
        values, value = working.point(y)
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
    """Maximise the dual: Newton steps, damped by an Armijo search.

    Stops when the graph differs by at most ``tol``, measured by its own entries
    (:func:`glnn.solver.problem.unit`), from what its own penalties imply.
    """
    point, best = _Point.at(working, working.start(start)), None
    iterations, n_hidden, reason = 0, 0, ""
    while True:
        best = point if best is None or point.violation < best.violation else best
        if point.violation <= tol * working.unit(point.values):
            reason = ""
            break
        if iterations >= max_iter or n_hidden >= _STUCK:
            point, reason = best, reason or f"{max_iter} Newton steps were not enough"
            break
        step, is_solved = newton_step(working, point.values, point.gradient)
        reason = "" if is_solved else _SLOW
        moved = _line_search(working, point, step) or _short_step(working, point)
        n_hidden = n_hidden + 1 if moved is None else 0
        point = _Point.at(working, point.y + step) if moved is None else moved
        iterations += 1
        if n_hidden >= _STUCK:
            reason = reason or _HIDDEN
    return DualSolution(working.named(point.y), point.values, iterations, reason)


_SLOW = "conjugate gradients did not end in a Newton step: the penalties are strongly coupled"
_HIDDEN = "rounding hides every further step: a penalty is very strong beside the curvature"


def _short_step(working: WorkingProblem, point: _Point) -> _Point | None:
    """Step as if every pair were an edge: pairs that become edges on the way slow a long step."""
    every = torch.ones_like(point.values)
    return _line_search(working, point, newton_step(working, every, point.gradient)[0])


def _line_search(working: WorkingProblem, point: _Point, step: Tensor) -> _Point | None:
    """Halve the step until the value falls enough; ``None`` if rounding hides every fall."""
    slope = working.dot(point.gradient, step)
    slack, length = _ROUNDING * abs(point.value), 1.0
    for _ in range(_MAX_HALVINGS):
        y = torch.add(point.y, step, alpha=length)
        values, value = working.point(y)
        if value <= point.value + 1e-4 * length * slope + slack:
            return _Point.of(working, y, values, value)
        length /= 2
    return None
