import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.solver.energies import ChannelEnergy
from glnn.solver.pairs import Pairs
from glnn.solver.penalties import Loops, RowSums
from glnn.solver.preconditioner import preconditioner


def newton_matrix(maps, inverse, scale):
    ends = np.cumsum([0, *(m.penalty.target.size for m in maps)])
    parts = [slice(a, b) for a, b in itertools.pairwise(ends)]

    def times(d):
        moved = sum(m.adjoint(d[p]) for m, p in zip(maps, parts))
        return inverse * d + scale * np.concatenate([m.apply(moved) for m in maps])

    return np.array([times(e) for e in np.eye(ends[-1])]), parts


@pytest.mark.parametrize("sparse", [True, False])
def test_preconditioned_newton_matrix_is_close_to_the_identity(sparse, rng):
    n = 30
    signal = 3 * np.abs(rng.standard_normal((n, 5)))
    pairs = Pairs.union(n, [(rng.integers(0, n, 200), rng.integers(0, n, 200))])
    energy = ChannelEnergy(sp.csr_matrix(signal) if sparse else signal, 1.0)
    maps = [penalty.on(pairs) for penalty in (RowSums(n, 1.0), Loops(n, 0.01), energy)]
    inverse = np.concatenate([np.full(n, 0.5), [50.0], np.full(5, 0.5)])
    matrix, parts = newton_matrix(maps, inverse, 1.0)
    apply = preconditioner(maps, parts, inverse, 1.0)
    near = np.array([apply(column) for column in matrix])
    values = np.sort(np.linalg.eigvals(near).real)
    assert values[0] > 0
    assert values[-1] / values[0] < 10
    assert np.linalg.cond(matrix / np.diag(matrix)[:, None]) > 100


def test_without_energies_the_diagonal_is_used(rng):
    pairs = Pairs.union(8, [(rng.integers(0, 8, 20), rng.integers(0, 8, 20))])
    maps = [RowSums(8, 1.0).on(pairs)]
    matrix, parts = newton_matrix(maps, np.full(8, 0.5), 1.0)
    ones = np.ones(8)
    assert np.allclose(preconditioner(maps, parts, np.full(8, 0.5), 1.0)(ones), 1 / np.diag(matrix))
