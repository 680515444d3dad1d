import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.graph.pairs import Pairs
from glnn.objective import Weights
from glnn.solver import preconditioner as module
from glnn.solver.dual import WorkingProblem
from glnn.solver.preconditioner import preconditioner


@pytest.fixture
def working(rng, make_problem):
    def make(signal, weights, reading):
        problem = make_problem(signal, weights, reading)
        n = problem.n_nodes
        ends = torch.from_numpy(rng.integers(0, n, (2, 200)))
        return WorkingProblem.of(problem, Pairs.union(problem.partition, [(ends[0], ends[1])]))

    return make


def newton_matrix(working, active, scale):
    def times(d):
        return working.inverse * d + scale * working.apply(working.adjoint(d) * active)

    units = torch.eye(len(working.target), dtype=torch.float64)
    return torch.stack([times(unit) for unit in units])


@pytest.mark.parametrize("reading", ["channel", "frobenius"])
@pytest.mark.parametrize("sparse", [True, False])
def test_preconditioned_newton_matrix_is_close_to_the_identity(reading, sparse, rng, working):
    signal = 3 * np.abs(rng.standard_normal((30, 5 if reading == "channel" else 3)))
    weights = Weights(ridge=0.5, row_sums=1.0, loops=0.01)
    dual = working(sp.csr_matrix(signal) if sparse else signal, weights, reading)
    active = torch.ones(len(dual.pairs), dtype=torch.float64)
    matrix = newton_matrix(dual, active, 1.0)
    apply = preconditioner(dual, active, 1.0)
    near = torch.stack([apply(column) for column in matrix])
    values = torch.linalg.eigvals(near).real.sort().values
    assert values[0] > 0
    assert values[-1] / values[0] < 10
    assert torch.linalg.cond(matrix / matrix.diagonal()[:, None]) > 100


def test_without_energies_the_diagonal_is_used(rng, working):
    dual = working(rng.standard_normal((8, 2)), Weights(ridge=1.0), "trace")
    active = (dual.pairs.keys % 2).double()
    matrix = newton_matrix(dual, active, 1.0)
    ones = torch.ones(len(matrix), dtype=torch.float64)
    assert torch.allclose(preconditioner(dual, active, 1.0)(ones), 1 / matrix.diagonal())


def test_blocks_do_not_depend_on_how_many_pairs_are_taken_at_a_time(rng, working, monkeypatch):
    dual = working(rng.standard_normal((30, 4)), Weights(ridge=1.0), "channel")
    active, residual = torch.ones(len(dual.pairs)).double(), torch.ones(len(dual.target)).double()
    at_once = preconditioner(dual, active, 1.0)(residual)
    monkeypatch.setattr(module, "_AT_ONCE", 40)
    assert torch.allclose(preconditioner(dual, active, 1.0)(residual), at_once)
    monkeypatch.setattr(module, "_MOST", 1)
    plain = preconditioner(dual, active, 1.0)(residual)
    assert not torch.allclose(plain, at_once)
