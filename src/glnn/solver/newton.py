"""Semismooth Newton on the dual of the graph problem, for one working set of pairs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glnn.solver.conjugate import newton_step
from glnn.solver.dual import WorkingProblem
from glnn.solver.problem import Dual

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
    (:func:`glnn.solver.accuracy.unit`), from what its own penalties imply.
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
