import pytest
import torch

from glnn.objective import Weights
from glnn.solver import conjugate
from glnn.solver.conjugate import newton_step
from glnn.solver.dual import WorkingProblem


@pytest.mark.parametrize("reading", ["trace", "channel", "frobenius"])
def test_the_step_solves_the_newton_system(reading, rng, make_problem, all_pairs):
    weights = Weights(ridge=0.5, row_sums=1.0, loops=0.1)
    problem = make_problem(rng.standard_normal((20, 3)), weights, reading)
    working = WorkingProblem.of(problem, all_pairs(20))
    values, _ = working.point(torch.zeros_like(working.target))
    gradient = 1e-4 * working.gradient(torch.zeros_like(working.target), values)
    step, is_solved = newton_step(working, values, gradient)
    moved = working.adjoint(step) * (values > 0)
    image = working.inverse * step + working.apply(moved) / (2 * working.curvature)
    assert is_solved
    assert float((image + gradient).norm()) < 0.1 * float(gradient.norm())


def test_too_few_steps_are_told(rng, make_problem, all_pairs, monkeypatch):
    problem = make_problem(rng.standard_normal((20, 3)), Weights(ridge=0.01, row_sums=10.0))
    working = WorkingProblem.of(problem, all_pairs(20))
    values, _ = working.point(torch.zeros_like(working.target))
    gradient = working.gradient(torch.zeros_like(working.target), values)
    monkeypatch.setattr(conjugate, "_MAX_STEPS", 1)
    assert not newton_step(working, values, 1e-9 * gradient)[1]
