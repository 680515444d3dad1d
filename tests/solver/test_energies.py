import numpy as np
import scipy.sparse as sp

from glnn.solver import energies
from glnn.solver.energies import ChannelEnergy, FrobeniusEnergy
from glnn.solver.pairs import Pairs


def test_energies_of_the_identity_are_the_targets(rng):
    signal = rng.standard_normal((9, 3))
    for penalty in (ChannelEnergy(signal, 1.0), FrobeniusEnergy.of(signal, 1.0)):
        assert np.allclose(penalty.of_matrix(sp.eye(9, format="csr")), penalty.target)


def test_frobenius_norm_does_not_depend_on_the_axes(rng, make_graph):
    signal, a = rng.standard_normal((9, 3)), make_graph(9, rng)
    turned = FrobeniusEnergy.of(signal, 1.0)
    misfit = turned.of_matrix(a) - turned.target
    expected = signal.T @ (np.eye(9) - a.toarray()) @ signal
    assert np.isclose(misfit @ misfit, (expected**2).sum())


def test_metric_reproduces_the_adjoint(rng):
    signal, pairs = rng.standard_normal((9, 3)), Pairs.union(9, [np.triu_indices(9)])
    square = rng.standard_normal((3, 3))
    y = (square + square.T).ravel()
    penalty = FrobeniusEnergy.of(signal, 1.0)
    expected = (signal @ penalty.metric(y) @ signal.T)[pairs.i, pairs.j]
    assert np.allclose(penalty.adjoint(y).on_pairs(pairs), expected)


def test_products_that_are_too_many_to_keep_change_nothing(rng, monkeypatch):
    signal, pairs = rng.standard_normal((9, 3)), Pairs.union(9, [np.triu_indices(9)])
    penalty, values = ChannelEnergy(signal, 1.0), rng.random(45)
    kept = penalty.on(pairs).apply(values)
    monkeypatch.setattr(energies, "_KEPT_BYTES", 0)
    assert np.allclose(penalty.on(pairs).apply(values), kept)
