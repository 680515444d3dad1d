"""One Newton system of the dual, solved approximately by conjugate gradients."""

import math

import torch
from torch import Tensor

from glnn.solver.dual import WorkingProblem
from glnn.solver.preconditioner import preconditioner

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
