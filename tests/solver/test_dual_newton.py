import numpy as np
import pytest

from glnn.objective import Weights
from glnn.solver.dual_newton import WorkingProblem, _Dual, solve_dual
from glnn.solver.pairs import Pairs
from glnn.solver.problem import build_problem

READINGS = ["trace", "channel", "frobenius"]


def working_problem(reading, rng, n=25):
    signal = rng.standard_normal((n, 3))
    weights = Weights(ridge=0.5, row_sums=1.0, loops=0.1)
    problem = build_problem(signal, None, weights, reading)
    pairs = Pairs.union(n, [np.triu_indices(n)])
    return problem, WorkingProblem.of(problem, pairs)


@pytest.mark.parametrize("reading", READINGS)
def test_gradient_is_that_of_finite_differences(reading, rng):
    _, working = working_problem(reading, rng)
    dual = _Dual(working)
    y = rng.standard_normal(dual.target.size) * 0.1
    values, _ = dual.point(y)
    direction = rng.standard_normal(y.size)
    if reading == "frobenius":  # the dual vector is a symmetric matrix
        for vector in (y, direction):
            square = vector[-9:].reshape(3, 3)
            vector[-9:] = (square + square.T).ravel()
        values, _ = dual.point(y)
    step = 1e-6
    slope = (dual.point(y + step * direction)[1] - dual.point(y - step * direction)[1]) / (2 * step)
    assert np.isclose(dual.gradient(y, values) @ direction, slope, rtol=1e-5)


@pytest.mark.parametrize("reading", READINGS)
def test_primal_and_dual_values_meet(reading, rng):
    problem, working = working_problem(reading, rng)
    solution = solve_dual(working, tol=1e-10)
    assert solution.converged
    squares = float((working.pairs.counts * solution.values**2).sum())
    primal = problem.primal_value(working.pairs.to_csr(solution.values))
    assert np.isclose(primal, problem.dual_value(solution.dual, squares), rtol=1e-9)


def test_the_step_limit_is_kept_and_told(rng):
    _, working = working_problem("trace", rng)
    solution = solve_dual(working, tol=1e-12, max_iter=1)
    assert solution.iterations == 1
    assert not solution.converged


def test_a_start_of_another_shape_is_left_out(rng):
    _, working = working_problem("trace", rng)
    cold = solve_dual(working)
    odd = solve_dual(working, {"row_sums": np.ones(3), "unknown": np.ones(2)})
    assert np.array_equal(cold.values, odd.values)


def test_strong_row_sums_are_met(rng):
    signal = rng.standard_normal((25, 3))
    weights = Weights(ridge=1.0, row_sums=1e6, closeness=0.0)
    problem = build_problem(signal, None, weights, "trace")
    pairs = Pairs.union(25, [np.triu_indices(25)])
    solution = solve_dual(WorkingProblem.of(problem, pairs))
    assert solution.converged
    assert np.allclose(np.asarray(pairs.to_csr(solution.values).sum(1)), 1.0, atol=1e-4)
