r"""The dual of the graph problem on a device, for the penalties on row sums and on the trace.

The same problem as in :mod:`glnn.solver.dual_newton`, in tensors. Both penalties are one sparse
matrix :math:`K` with a row for each pair and a column for each dual number (the nodes' row sums,
then the trace): :math:`\tfrac12` at both ends of an edge, 1 at the node of a loop and in the column
of the trace. With :math:`c` the counts of the pairs, 2 or 1 on the diagonal,

.. math:: T^*(y) = K y, \qquad T(a) = K^\top (c \circ a), \qquad
          a(y) = \max(0,\, b - K y) / (2\gamma),

so a step of conjugate gradients takes two sparse products.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glnn.solver.device_incidence import incidence
from glnn.solver.device_pairs import DevicePairs, to_device
from glnn.solver.newton import ConcaveDual, ascend
from glnn.solver.penalties import Loops, Penalty, RowSums

_MAX_CONJUGATE = 500


@dataclass(frozen=True, eq=False)
class DeviceProblem:
    r"""The problem on its pairs: offsets :math:`b`, curvature :math:`\gamma`, penalties.

    ``spread`` is the matrix :math:`K`, ``sums`` the matrix :math:`K^\top \operatorname{diag}(c)`.
    """

    pairs: DevicePairs
    offsets: Tensor
    curvature: float | int
    penalties: tuple[Penalty, ...]
    spread: Tensor
    sums: Tensor

    @classmethod
    def of(
        cls,
        pairs: DevicePairs,
        offsets: Tensor,
        curvature: float | int,
        penalties: tuple[Penalty, ...],
    ) -> "DeviceProblem":
        """Make the matrix of the penalties, of which there are row sums, loops, or both."""
        kinds = [type(penalty) for penalty in penalties]
        matrices = incidence(pairs, rows=RowSums in kinds, trace=Loops in kinds)
        return cls(pairs, offsets, curvature, penalties, *matrices)

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
        self.problem = problem
        self.weights = [(p.name, float(p.weight), len(p.target)) for p in problem.penalties]
        parts = [problem.offsets.new_full((size,), weight) for _, weight, size in self.weights]
        self.weight = torch.cat([problem.offsets[:0], *parts])
        targets = [to_device(p.target, problem.offsets.device) for p in problem.penalties]
        self.target = torch.cat([problem.offsets[:0], *targets])
        self.inverse = 0.5 / self.weight

    def numerator(self, y: Tensor) -> Tensor:
        """Return ``b - T*(y)`` on the pairs."""
        if not self.weights:
            return self.problem.offsets.clone()
        return torch.addmv(self.problem.offsets, self.problem.spread, y, alpha=-1)

    def point(self, y: Tensor) -> tuple[Tensor, float]:
        """Return the graph ``a(y)`` and the value ``-D(y)``."""
        curvature = self.problem.curvature
        values = self.numerator(y).clamp_(min=0).div_(2 * curvature)
        squares = (self.problem.pairs.counts * values).dot(values)
        fixed = torch.addcmul(self.target, self.inverse, y, value=0.5).dot(y)
        return values, float(torch.add(fixed, squares, alpha=curvature))

    def gradient(self, y: Tensor, values: Tensor) -> Tensor:
        """Return the gradient of ``-D``."""
        fixed = torch.addcmul(self.target, self.inverse, y)
        if not self.weights:
            return fixed
        return torch.addmv(fixed, self.problem.sums, values, alpha=-1)

    def violation(self, gradient: Tensor) -> float:
        """Bound how far the graph is from what its own penalties imply, entry by entry."""
        parts = torch.split((self.weight * gradient).abs(), [size for *_, size in self.weights])
        total = torch.stack([part.max() for part in parts]).sum()
        return float(total) / float(self.problem.curvature)

    def dot(self, first: Tensor, second: Tensor) -> float:
        """Return the inner product."""
        return float(first.dot(second))

    def largest(self, values: Tensor) -> float:
        """Return the largest entry, at least 0."""
        return largest(values)

    def newton_step(self, values: Tensor, gradient: Tensor) -> Tensor:
        r"""Solve :math:`[\tfrac{1}{2w} + T 1_{active} T^*/(2\gamma)]\,d = -\nabla` by and large."""
        problem, active = self.problem, (values > 0).double()
        scale = 1.0 / (2 * problem.curvature)
        squares = torch.mv(problem.sums, active / problem.pairs.counts)  # the diagonal of T T*
        diagonal = torch.add(self.inverse, squares, alpha=scale)
        residual = -gradient
        solution = torch.zeros_like(residual)
        scaled = residual / diagonal
        direction, size = scaled, self.dot(residual, scaled)
        goal = size * min(1e-2, max(size, 1e-18))  # loose while far from the solution
        for _ in range(_MAX_CONJUGATE):
            if size <= max(goal, 1e-300):
                break
            moved = torch.mv(problem.spread, direction).mul_(active)
            image = torch.addmv(self.inverse * direction, problem.sums, moved, alpha=scale)
            length = size / direction.dot(image)
            solution.addcmul_(direction, length)
            residual.addcmul_(image, length, value=-1)
            scaled = residual / diagonal
            size, previous = self.dot(residual, scaled), size
            direction = torch.add(scaled, direction, alpha=size / previous)
        return solution

    def named(self, y: Tensor) -> dict[str, Tensor]:
        """Return the parts of ``y`` by the names of their penalties."""
        parts = torch.split(y, [size for *_, size in self.weights]) if self.weights else ()
        return {name: part for (name, *_), part in zip(self.weights, parts)}

    def start(self, dual: dict[str, Any] | None) -> Tensor:
        """Return a start; parts that do not fit this problem start at zero."""
        y = torch.zeros_like(self.target)
        for name, part in self.named(y).items():
            given = (dual or {}).get(name)
            if given is not None and tuple(given.shape) == tuple(part.shape):
                part.copy_(torch.as_tensor(given))
        return y


def largest(values: Tensor) -> float:
    """Return the largest of some numbers, at least 0."""
    return max(0.0, float(values.max())) if len(values) else 0.0
