import numpy as np
import pytest
import scipy.sparse as sp

from glnn.solver.energies import ChannelEnergy, FrobeniusEnergy
from glnn.solver.pairs import Pairs
from glnn.solver.penalties import Loops, OnPairs, RowSums

N = 12


def every_penalty(rng):
    signal = rng.standard_normal((N, 4))
    return [
        RowSums(N, 0.5),
        Loops(N, 0.5),
        ChannelEnergy(signal, 0.5),
        ChannelEnergy(sp.csr_matrix(signal), 0.5),
        FrobeniusEnergy.of(signal, 0.5),
        FrobeniusEnergy.of(sp.csr_matrix(signal), 0.5),
    ]


def dual_vector(penalty, rng):
    y = rng.standard_normal(penalty.target.size)
    if penalty.name == "frobenius":
        matrix = y.reshape(4, 4)
        y = (matrix + matrix.T).ravel()
    return y


@pytest.fixture
def pairs(rng):
    return Pairs.union(N, [(rng.integers(0, N, 30), rng.integers(0, N, 30))])


@pytest.mark.parametrize("which", range(6))
def test_map_and_adjoint_agree_over_the_full_matrix(which, rng, pairs):
    penalty = every_penalty(rng)[which]
    values, y = rng.random(len(pairs)), dual_vector(penalty, rng)
    matrix = pairs.to_csr(values)
    inner = (pairs.counts * values) @ penalty.adjoint(y).on_pairs(pairs)
    assert np.isclose(penalty.of_matrix(matrix) @ y, inner)
    assert np.allclose(penalty.on(pairs).apply(values), penalty.of_matrix(matrix))
    assert np.allclose(penalty.on(pairs).adjoint(y), penalty.adjoint(y).on_pairs(pairs))
    plain = OnPairs(penalty, pairs)
    assert np.allclose(plain.apply(values), penalty.of_matrix(matrix))


@pytest.mark.parametrize("which", range(6))
def test_restricted_map_sees_only_the_chosen_pairs(which, rng, pairs):
    penalty = every_penalty(rng)[which]
    mask, values = rng.random(len(pairs)) < 0.5, rng.random(len(pairs))
    on_some = penalty.on(pairs).restrict(mask).apply(values[mask])
    assert np.allclose(on_some, penalty.on(pairs).apply(values * mask))


@pytest.mark.parametrize("which", range(4))
def test_squares_are_the_diagonal_of_the_map_times_its_adjoint(which, rng, pairs):
    penalty = every_penalty(rng)[which]
    on_pairs = penalty.on(pairs)
    unit = np.eye(penalty.target.size)
    expected = [on_pairs.apply(on_pairs.adjoint(e)) @ e for e in unit]
    assert np.allclose(on_pairs.squares(), expected)


@pytest.mark.parametrize("which", range(6))
def test_largest_adjoint_is_a_bound(which, rng):
    penalty = every_penalty(rng)[which]
    y = dual_vector(penalty, rng)
    entries = penalty.adjoint(y).on_pairs(Pairs.union(N, [np.triu_indices(N)]))
    assert np.abs(entries).max() <= penalty.largest_adjoint(y) + 1e-12
