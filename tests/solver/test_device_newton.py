import numpy as np
import pytest
import torch

from glnn.objective import Weights
from glnn.solver.device_newton import DeviceDual, largest
from glnn.solver.device_solve import device_problem
from glnn.solver.dual_newton import WorkingProblem, _Dual
from glnn.solver.problem import build_problem

WEIGHTS = Weights(row_sums=0.7, loops=0.3, closeness=1.0)


@pytest.fixture
def both(rng, make_graph, make_features):
    """Return the dual in NumPy and in tensors, of one problem."""
    signal, graph = make_features(25, 4, rng), make_graph(25, rng)
    problem = build_problem(signal, graph, WEIGHTS, "trace")
    resident = device_problem(problem, tuple(rng.integers(0, 25, (2, 60))), "cpu")
    return _Dual(WorkingProblem.of(problem, resident.pairs.to_host())), DeviceDual(resident)


def test_value_gradient_and_violation_are_those_of_the_host(both, rng):
    host, resident = both
    y = rng.standard_normal(26)
    values, value = host.point(y)
    found, found_value = resident.point(torch.from_numpy(y))
    assert np.allclose(found.numpy(), values, atol=1e-13)
    assert np.isclose(found_value, value)
    gradient = host.gradient(y, values)
    found_gradient = resident.gradient(torch.from_numpy(y), found)
    assert np.allclose(found_gradient.numpy(), gradient, atol=1e-12)
    assert np.isclose(resident.violation(found_gradient), host.violation(gradient))
    assert np.isclose(resident.largest(found), host.largest(values))


def test_the_newton_step_is_that_of_the_host(both, rng):
    host, resident = both
    y = 0.1 * rng.standard_normal(26)
    values, _ = host.point(y)
    gradient = host.gradient(y, values)
    step = resident.newton_step(torch.from_numpy(values), torch.from_numpy(gradient))
    assert np.allclose(step.numpy(), host.newton_step(values, gradient), atol=1e-12)


def test_a_full_newton_step_solves_the_linear_system(both, rng):
    _, resident = both
    y = torch.from_numpy(0.1 * rng.standard_normal(26))
    values, _ = resident.point(y)
    gradient = 1e-9 * resident.gradient(y, values)  # a small one asks for an exact solution
    step = resident.newton_step(values, gradient)
    problem, active = resident.problem, (values > 0).double()
    spread, sums = problem.spread.to_dense(), problem.sums.to_dense()
    matrix = torch.diag(resident.inverse) + sums @ (active[:, None] * spread) / (
        2 * problem.curvature
    )
    assert torch.allclose(matrix, matrix.T)
    assert torch.allclose(matrix @ step, -gradient, rtol=1e-5, atol=1e-18)


def test_a_start_that_does_not_fit_is_left_out(both):
    _, resident = both
    y = resident.start({"row_sums": np.ones(3), "loops": np.array([2.0]), "unknown": np.ones(1)})
    assert y.tolist() == [0.0] * 25 + [2.0]
    assert resident.named(y)["loops"].tolist() == [2.0]


def test_the_largest_of_nothing_is_zero():
    assert largest(torch.empty(0)) == 0.0
    assert largest(torch.tensor([-1.0])) == 0.0
