"""The Newton ascent of a dual that is concave, once differentiable and piecewise quadratic.

Where the numbers lie, NumPy on the host or tensors on a device, is the dual's own business.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

_MAX_HALVINGS = 40
_ROUNDING = 1e-13  # relative error of a dual value


class ConcaveDual(ABC):
    r"""A dual :math:`D(y)` whose points have graphs :math:`a(y)`; vectors are flat arrays."""

    @abstractmethod
    def point(self, y: Any) -> tuple[Any, float]:
        """Return the graph ``a(y)`` and the value ``-D(y)``."""

    @abstractmethod
    def gradient(self, y: Any, values: Any) -> Any:
        """Return the gradient of ``-D`` at a point and its graph."""

    @abstractmethod
    def violation(self, gradient: Any) -> float:
        r"""Bound how far :math:`a` is from :math:`a(2 w (T(a) - \tau))`, entry by entry."""

    @abstractmethod
    def newton_step(self, values: Any, gradient: Any) -> Any:
        """Solve the Newton system approximately, at a graph and its gradient."""

    @abstractmethod
    def dot(self, first: Any, second: Any) -> float:
        """Return the inner product of two dual vectors."""

    @abstractmethod
    def largest(self, values: Any) -> float:
        """Return the largest entry of a graph, at least 0."""


@dataclass(frozen=True, eq=False)
class Ascent:
    """Where an ascent ended: the dual point, its graph, and how it was reached."""

    y: Any
    values: Any
    iterations: int
    converged: bool


def ascend(dual: ConcaveDual, y: Any, *, tol: float | int, max_iter: int) -> Ascent:
    """Maximise the dual from ``y``: Newton steps, damped by an Armijo search.

    Stops when the graph differs by at most ``tol`` (relative to its largest entry where that is
    above one) from what its own penalties imply.
    """
    values, value = dual.point(y)
    gradient = dual.gradient(y, values)
    iterations, converged = 0, False
    while True:
        goal = tol * max(1.0, dual.largest(values))
        converged = not len(y) or dual.violation(gradient) <= goal
        if converged or iterations >= max_iter:
            break
        step = dual.newton_step(values, gradient)
        moved = _line_search(dual, y, value, gradient, step)
        if moved is None:
            break
        y, values, value = moved
        gradient = dual.gradient(y, values)
        iterations += 1
    return Ascent(y, values, iterations, converged)


def _line_search(
    dual: ConcaveDual, y: Any, value: float, gradient: Any, step: Any
) -> tuple[Any, Any, float] | None:
    """Halve the step until the value falls enough; ``None`` if rounding hides every fall."""
    slope, slack = dual.dot(gradient, step), _ROUNDING * abs(value)
    length = 1.0
    for _ in range(_MAX_HALVINGS):
        trial = y + length * step
        values, new_value = dual.point(trial)
        if new_value <= value + 1e-4 * length * slope + slack:
            return trial, values, new_value
        length /= 2
    return None
