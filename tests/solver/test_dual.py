import pytest
import torch

from glnn.objective import Weights
from glnn.solver.dual import WorkingProblem

READINGS = ["trace", "channel", "frobenius"]


@pytest.fixture
def working(rng, make_problem, all_pairs):
    def make(reading):
        weights = Weights(ridge=0.5, row_sums=1.0, loops=0.1)
        problem = make_problem(rng.standard_normal((25, 3)), weights, reading)
        return WorkingProblem.of(problem, all_pairs(25))

    return make


def random_dual(working, reading, seed):
    y = torch.randn(len(working.target), generator=torch.Generator().manual_seed(seed)).double()
    if reading == "frobenius":  # this part of the dual vector is a symmetric matrix
        part = working.slices[0]
        square = y[part].view(3, 3)
        y[part] = (square + square.T).reshape(-1)
    return y


@pytest.mark.parametrize("reading", READINGS)
def test_gradient_is_that_of_finite_differences(reading, working):
    dual = working(reading)
    y, direction = 0.1 * random_dual(dual, reading, 0), random_dual(dual, reading, 1)
    values, _ = dual.point(y)
    step = 1e-6
    slope = (dual.point(y + step * direction)[1] - dual.point(y - step * direction)[1]) / (2 * step)
    assert float(dual.gradient(y, values).dot(direction)) == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("reading", READINGS)
def test_the_violation_is_that_of_the_graph_implied_by_its_own_penalties(reading, working):
    dual = working(reading)
    y = 0.1 * random_dual(dual, reading, 0)
    values, _ = dual.point(y)
    implied, _ = dual.point((dual.apply(values) - dual.target) / dual.inverse)
    assert float((values - implied).abs().max()) <= dual.violation(dual.gradient(y, values))


def test_a_shift_is_a_change_of_every_offset(working):
    dual = working("trace")
    assert torch.equal(dual.shifted(0.5).offsets, dual.offsets + 0.5)


def test_named_parts_come_back_as_a_start(working):
    dual = working("channel")
    y = random_dual(dual, "channel", 0)
    assert torch.equal(dual.start(dual.named(y)), y)
    assert not dual.start(None).any()
