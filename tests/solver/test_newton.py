import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.graph.pairs import Pairs, SparseAdjacency
from glnn.objective import Weights
from glnn.solver import newton
from glnn.solver.newton import make_preconditioner, newton_step, solve_dual
from glnn.solver.problem import WorkingProblem

# Semismooth Newton

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
    images = problem.images(working.pairs, solution.values)
    primal = problem.primal_value(working.pairs, solution.values, images, working.offsets)
    assert np.isclose(primal, problem.dual_value(solution.dual, squares), rtol=1e-9)


def test_strong_row_sums_are_met(working_problem):
    weights = Weights(ridge=1.0, row_sums=1e6, closeness=0.0)
    _, working = working_problem(weights=weights)
    solution = solve_dual(working)
    assert not solution.reason
    row_sums = SparseAdjacency(working.pairs, solution.values).row_sums()
    assert torch.allclose(row_sums, torch.ones_like(row_sums), atol=1e-4)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_numbers_that_are_not_finite_are_no_convergence(bad, working_problem, monkeypatch):
    _, working = working_problem()
    monkeypatch.setattr(newton, "newton_step", lambda w, v, g: (torch.full_like(g, bad), True))
    solution = solve_dual(working)
    assert solution.reason
    assert bool(torch.isfinite(solution.values).all())


# Newton steps


@pytest.mark.parametrize("reading", ["trace", "channel", "frobenius"])
def test_the_step_solves_the_newton_system(reading, rng, make_problem, all_pairs):
    weights = Weights(ridge=0.5, row_sums=1.0, loops=0.1)
    problem = make_problem(rng.standard_normal((20, 3)), weights, reading)
    working = WorkingProblem.of(problem, all_pairs(20))
    values, _ = working.evaluate(torch.zeros_like(working.problem.target))
    gradient = 1e-4 * working.gradient(torch.zeros_like(working.problem.target), values)
    step, is_solved = newton_step(working, values, gradient)
    moved = working.adjoint(step) * (values > 0)
    image = working.inverse * step + working.apply(moved) / (2 * working.problem.curvature)
    assert is_solved
    assert float((image + gradient).norm()) < 0.1 * float(gradient.norm())


# Preconditioner


@pytest.fixture
def working(rng, make_problem):
    def make(signal, weights, reading):
        problem = make_problem(signal, weights, reading)
        n = problem.n_nodes
        ends = torch.from_numpy(rng.integers(0, n, (2, 200)))
        return WorkingProblem.of(problem, Pairs.union(problem.signal.layout, [(ends[0], ends[1])]))

    return make


def newton_matrix(working, active, scale):
    def times(d):
        return working.inverse * d + scale * working.apply(working.adjoint(d) * active)

    units = torch.eye(len(working.problem.target), dtype=torch.float64)
    return torch.stack([times(unit) for unit in units])


@pytest.mark.parametrize("reading", ["channel", "frobenius"])
@pytest.mark.parametrize("sparse", [True, False])
def test_preconditioned_newton_matrix_is_close_to_the_identity(reading, sparse, rng, working):
    signal = 3 * np.abs(rng.standard_normal((30, 5 if reading == "channel" else 3)))
    weights = Weights(ridge=0.5, row_sums=1.0, loops=0.01)
    dual = working(sp.csr_matrix(signal) if sparse else signal, weights, reading)
    active = torch.ones(len(dual.pairs), dtype=torch.float64)
    matrix = newton_matrix(dual, active, 1.0)
    apply = make_preconditioner(dual, active, 1.0)
    near = torch.stack([apply(column) for column in matrix])
    values = torch.linalg.eigvals(near).real.sort().values
    assert values[0] > 0
    assert values[-1] / values[0] < 10
    assert torch.linalg.cond(matrix / matrix.diagonal()[:, None]) > 100
