import numpy as np
import pytest
import torch

from glnn.objective import Weights
from glnn.solver import newton
from glnn.solver.dual import WorkingProblem
from glnn.solver.newton import solve_dual

READINGS = ["trace", "channel", "frobenius"]


@pytest.fixture
def working_problem(rng, make_problem, all_pairs):
    def make(reading="trace", weights=None, n=25):
        weights = weights or Weights(ridge=0.5, row_sums=1.0, loops=0.1)
        problem = make_problem(rng.standard_normal((n, 3)), weights, reading)
        return problem, WorkingProblem.of(problem, all_pairs(n))

    return make


@pytest.mark.parametrize("reading", READINGS)
def test_primal_and_dual_values_meet(reading, working_problem):
    problem, working = working_problem(reading)
    solution = solve_dual(working, tol=1e-10)
    assert not solution.reason
    squares = float((working.pairs.counts * solution.values**2).sum())
    primal = problem.primal_value(working.pairs, solution.values)
    assert np.isclose(primal, problem.dual_value(solution.dual, squares), rtol=1e-9)


def test_the_step_limit_is_kept_and_told(working_problem):
    solution = solve_dual(working_problem()[1], tol=1e-12, max_iter=1)
    assert solution.iterations == 1
    assert solution.reason == "1 Newton steps were not enough"


def test_a_start_of_another_shape_is_left_out(working_problem):
    _, working = working_problem()
    cold = solve_dual(working)
    odd = solve_dual(working, {"row_sums": torch.ones(3), "unknown": torch.ones(2)})
    assert torch.equal(cold.values, odd.values)


def test_strong_row_sums_are_met(working_problem):
    weights = Weights(ridge=1.0, row_sums=1e6, closeness=0.0)
    _, working = working_problem(weights=weights)
    solution = solve_dual(working)
    assert not solution.reason
    row_sums = working.pairs.adjacency(solution.values).row_sums()
    assert torch.allclose(row_sums, torch.ones_like(row_sums), atol=1e-4)


def test_a_problem_without_penalties_is_solved_at_once(working_problem):
    weights = Weights(ridge=1.0, row_sums=0.0, loops=0.0)
    solution = solve_dual(working_problem(weights=weights)[1])
    assert solution.iterations == 0 and not solution.reason


def test_steps_that_rounding_hides_end_the_ascent_and_are_told(working_problem, monkeypatch):
    _, working = working_problem()
    monkeypatch.setattr(newton, "_line_search", lambda *_: None)
    monkeypatch.setattr(newton, "newton_step", lambda w, v, g: (torch.zeros_like(g), True))
    solution = solve_dual(working)
    assert solution.iterations == 3
    assert "rounding hides" in solution.reason


class Parabola(WorkingProblem):
    """Half the square of a number in place of the dual: the way to its lowest point is known."""

    def __init__(self, largest=1.0):
        object.__setattr__(self, "top", largest)

    def start(self, given):
        return given["y"]

    def point(self, y):
        return y, float(y @ y) / 2

    def gradient(self, y, values):
        return y

    def violation(self, gradient):
        return float(gradient.abs().max())

    def unit(self, values):
        return max(1.0, self.top)

    def dot(self, a, b):
        return float(a @ b)

    def named(self, y):
        return {"y": y}


def test_a_step_that_is_too_long_is_halved_until_the_value_falls():
    start = newton._Point.at(Parabola(), torch.ones(1, dtype=torch.float64))
    found = newton._line_search(Parabola(), start, torch.tensor([-6.0], dtype=torch.float64))
    assert found.y.item() == 1 - 6 / 4


@pytest.mark.parametrize(("largest", "tried"), [(0.5, 1), (1.4, 1), (2.0, 0)])
def test_it_ends_where_the_violation_is_small_beside_the_largest_entry_or_one(
    largest, tried, monkeypatch
):
    monkeypatch.setattr(newton, "newton_step", lambda working, values, gradient: (-gradient, True))
    start = {"y": torch.tensor([1.5e-3], dtype=torch.float64)}
    assert solve_dual(Parabola(largest), start, tol=1e-3).iterations == tried


def test_without_a_word_it_ends_at_a_relative_violation_of_a_hundred_millionth(monkeypatch):
    monkeypatch.setattr(newton, "newton_step", lambda working, values, gradient: (-gradient, True))
    for size, tried in ((0.9e-8, 0), (1.1e-8, 1)):
        start = {"y": torch.tensor([size], dtype=torch.float64)}
        assert solve_dual(Parabola(), start).iterations == tried


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_numbers_that_are_not_finite_are_no_convergence(bad, working_problem, monkeypatch):
    _, working = working_problem()
    monkeypatch.setattr(newton, "newton_step", lambda w, v, g: (torch.full_like(g, bad), True))
    solution = solve_dual(working)
    assert solution.reason
    assert bool(torch.isfinite(solution.values).all())


def test_no_edge_to_begin_with_makes_no_endless_step(rng, make_problem, all_pairs):
    signal = 40 * rng.standard_normal((13, 6))
    weights = Weights(smoothness=0.06, sparsity=0.0, row_sums=2.0, loops=77.0, ridge=0.005)
    problem = make_problem(signal, weights, "frobenius")
    working = WorkingProblem.of(problem, all_pairs(13))
    assert not working.point(working.start(None))[0].any()
    found = solve_dual(working)
    assert working.violation(working.gradient(working.start(found.dual), found.values)) < 1e3
