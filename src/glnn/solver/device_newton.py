r"""The dual of the graph problem on a device, for the penalties on row sums and on the trace.

The same problem as in :mod:`glnn.solver.dual_newton`, in tensors. With :math:`y` the dual vector
of the row sums and :math:`z` that of the trace,

.. math:: a_{ij} = \max\bigl(0,\; b_{ij} - \tfrac12 (y_i + y_j) - z\,[i=j]\bigr) / (2\gamma),

and with :math:`M` the 0/1 matrix of the pairs where that is positive, :math:`m` its diagonal, the
Newton matrix needs one sparse product:

.. math:: T T^* (d, e) = \bigl(\tfrac12 (M1 \circ d + M d) + e\,m,\;\;
          m \cdot d + e\, m \cdot 1\bigr) .
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glnn.solver.device_pairs import DevicePairs
from glnn.solver.newton import ConcaveDual, ascend
from glnn.solver.penalties import Loops, Penalty, RowSums

_MAX_CONJUGATE = 500


@dataclass(frozen=True, eq=False)
class DeviceProblem:
    r"""The problem on its pairs: offsets :math:`b`, curvature :math:`\gamma`, two penalties."""

    pairs: DevicePairs
    offsets: Tensor
    curvature: float | int
    penalties: tuple[Penalty, ...]

    def weight(self, kind: type[Penalty]) -> float:
        """Return the weight of a penalty, 0 if the problem lacks it."""
        return sum((float(p.weight) for p in self.penalties if isinstance(p, kind)), start=0.0)

    def shifted(self, constant: float) -> "DeviceProblem":
        """Return the same with ``constant`` added to every offset."""
        return dataclasses.replace(self, offsets=self.offsets + constant)

    def solve(
        self, start: dict[str, Any] | None, *, tol: float | int = 1e-8, max_iter: int = 100
    ) -> "DeviceSolution":
        """Maximise the dual by Newton steps; see :func:`glnn.solver.newton.ascend`."""
        dual = DeviceDual(self)
        found = ascend(dual, dual.start(start), tol=tol, max_iter=max_iter)
        return DeviceSolution(dual.named(found.y), found.values, found.iterations)


@dataclass(frozen=True, eq=False)
class DeviceSolution:
    """The dual point by the names of its penalties, its graph on the pairs, and the steps."""

    dual: dict[str, Tensor]
    values: Tensor
    iterations: int


class DeviceDual(ConcaveDual):
    """The dual as a function of one vector: row sums first, the trace last, if they count."""

    def __init__(self, problem: DeviceProblem) -> None:
        self.problem, self.pairs = problem, problem.pairs
        self.row_weight, self.loop_weight = problem.weight(RowSums), problem.weight(Loops)
        n_rows = problem.pairs.n_nodes if self.row_weight else 0
        self.rows = slice(0, n_rows)
        ones = torch.ones(n_rows, dtype=torch.float64, device=problem.offsets.device)
        has_trace = [ones.new_ones(1)] if self.loop_weight else []
        self.target = torch.cat([ones, *(0 * one for one in has_trace)])
        halves = [one * (0.5 / self.loop_weight) for one in has_trace]
        self.inverse = torch.cat([ones * (0.5 / (self.row_weight or 1.0)), *halves])  # 1 / (2 w)

    def numerator(self, y: Tensor) -> Tensor:
        """Return ``b - T*(y)`` on the pairs."""
        result = self.problem.offsets
        if self.row_weight:
            half = y[self.rows] / 2
            result = result - half[self.pairs.i] - half[self.pairs.j]
        if self.loop_weight:
            minus = (-y[-1]).expand(len(self.pairs.loops))
            result = result.index_add(0, self.pairs.loops, minus)
        return result

    def point(self, y: Tensor) -> tuple[Tensor, float]:
        """Return the graph ``a(y)`` and the value ``-D(y)``."""
        curvature = self.problem.curvature
        values = self.numerator(y).clamp(min=0).div_(2 * curvature)
        squares = (self.pairs.counts * values).dot(values)
        fixed = y.dot(self.inverse * y / 2 + self.target)
        return values, float(curvature * squares + fixed)

    def gradient(self, y: Tensor, values: Tensor) -> Tensor:
        """Return the gradient of ``-D``."""
        result = self.inverse * y + self.target
        if self.row_weight:
            result[self.rows] -= self.pairs.row_sums(values)
        if self.loop_weight:
            result[-1] -= values[self.pairs.loops].sum()
        return result

    def violation(self, gradient: Tensor) -> float:
        """Bound how far the graph is from what its own penalties imply, entry by entry."""
        total = gradient.new_zeros(())
        if self.row_weight:
            total = total + 2 * self.row_weight * gradient[self.rows].abs().max()
        if self.loop_weight:
            total = total + 2 * self.loop_weight * gradient[-1].abs()
        return float(total) / (2 * self.problem.curvature)

    def dot(self, first: Tensor, second: Tensor) -> float:
        """Return the inner product."""
        return float(first.dot(second))

    def largest(self, values: Tensor) -> float:
        """Return the largest entry, at least 0."""
        return largest(values)

    def newton_step(self, values: Tensor, gradient: Tensor) -> Tensor:
        """Solve the Newton system approximately by conjugate gradients, one question a step."""
        matrix = _NewtonMatrix(self, (values > 0).double())
        residual = -gradient
        solution = torch.zeros_like(residual)
        scaled = residual / matrix.diagonal
        direction, size = scaled.clone(), self.dot(residual, scaled)
        goal = size * min(1e-2, max(size, 1e-18))  # loose while far from the solution
        for _ in range(_MAX_CONJUGATE):
            if size <= max(goal, 1e-300):
                break
            image = matrix @ direction
            length = size / direction.dot(image)
            solution += length * direction
            residual -= length * image
            scaled = residual / matrix.diagonal
            size, previous = self.dot(residual, scaled), size
            direction = scaled + (size / previous) * direction
        return solution

    def named(self, y: Tensor) -> dict[str, Tensor]:
        """Return the parts of ``y`` by the names of their penalties."""
        parts = {"row_sums": y[self.rows]} if self.row_weight else {}
        return parts | ({"loops": y[-1:]} if self.loop_weight else {})

    def start(self, dual: dict[str, Any] | None) -> Tensor:
        """Return a start; parts that do not fit this problem start at zero."""
        y = torch.zeros_like(self.target)
        for name, part in self.named(y).items():
            given = (dual or {}).get(name)
            if given is not None and tuple(given.shape) == tuple(part.shape):
                part.copy_(torch.as_tensor(given))
        return y


class _NewtonMatrix:
    r"""The matrix :math:`\operatorname{diag}(1/2w) + T T^*/(2\gamma)` over active pairs."""

    def __init__(self, dual: DeviceDual, active: Tensor) -> None:
        pairs = dual.pairs
        self.dual, self.scale = dual, 1.0 / (2 * dual.problem.curvature)
        self.pattern = pairs.matrix(active)
        self.degree = torch.mv(self.pattern, active.new_ones(pairs.n_nodes))
        self.loops = active.new_zeros(pairs.n_nodes)
        self.loops[pairs.i[pairs.loops]] = active[pairs.loops]
        self.n_loops = self.loops.sum()
        squares = [(self.degree + self.loops) / 2] if dual.row_weight else []
        squares += [self.n_loops[None]] if dual.loop_weight else []
        self.diagonal = dual.inverse + self.scale * torch.cat(squares)

    def __matmul__(self, vector: Tensor) -> Tensor:
        dual, result = self.dual, self.dual.inverse * vector
        on_rows, on_trace = vector[dual.rows], vector[-1]
        if dual.row_weight:
            moved = (self.degree * on_rows + torch.mv(self.pattern, on_rows)) / 2
            if dual.loop_weight:
                moved += on_trace * self.loops
            result[dual.rows] += self.scale * moved
        if dual.loop_weight:
            moved = on_trace * self.n_loops
            if dual.row_weight:
                moved = moved + self.loops.dot(on_rows)
            result[-1] += self.scale * moved
        return result


def largest(values: Tensor) -> float:
    """Return the largest of some numbers, at least 0."""
    return max(0.0, float(values.max())) if len(values) else 0.0
