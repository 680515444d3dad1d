import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import Ridge

from glnn.engine import probe
from glnn.engine.classifier import Labels
from glnn.engine.probe import (
    _ridge_loss,
    loss_of_rows,
    loss_on_device,
    probe_loss,
    spread_on_device,
    spread_rows,
)
from glnn.engine.trainer import Validation
from glnn.graph.prior import normalized


def test_spread_rows_are_rows_of_the_mean_of_powers(blocks):
    _, graph, _ = blocks
    adj_hat = normalized(graph).toarray()
    whole = (np.eye(60) + adj_hat + adj_hat @ adj_hat) / 3
    nodes = np.array([5, 0, 41])
    np.testing.assert_allclose(spread_rows(graph, nodes).toarray(), whole[nodes], atol=1e-12)


@pytest.mark.parametrize("sparse", [True, False])
def test_features_spread_over_all_nodes_are_those_of_the_rows(sparse, blocks, monkeypatch):
    features, graph, _ = blocks
    features = np.asarray(features.toarray() if sp.issparse(features) else features)
    monkeypatch.setattr(probe, "DEVICE_BYTES", 2 * 32 * 60)  # two columns at a time
    nodes = np.array([5, 0, 41])
    given = sp.csr_matrix(features) if sparse else features
    found = spread_on_device(graph, given, nodes, "cpu").numpy()
    np.testing.assert_allclose(found, spread_rows(graph, nodes) @ features, atol=1e-12)


@pytest.mark.parametrize("n_known", [12, 20])
def test_the_error_in_tensors_is_that_in_numpy(n_known):
    rng = np.random.default_rng(3)
    rows, one_hot = rng.normal(size=(20, 5)), np.eye(3)[rng.integers(0, 3, 20)]
    found = loss_on_device(torch.from_numpy(rows), torch.from_numpy(one_hot), n_known)
    assert found == pytest.approx(loss_of_rows(rows, one_hot, n_known), rel=1e-9)


def test_an_error_left_out_is_that_of_a_ridge_fitted_without_the_row():
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(12, 5)), rng.normal(size=(12, 3))
    kernel, errors = rows @ rows.T, []
    for out in range(12):
        rest = np.arange(12) != out
        model = Ridge(alpha=0.7, fit_intercept=False).fit(rows[rest], targets[rest])
        errors.append(np.square(model.predict(rows[[out]]) - targets[out]).sum())
    assert _ridge_loss(kernel, targets, 12, 0.7) == pytest.approx(np.mean(errors))


def test_validation_errors_are_those_of_a_ridge_on_the_labelled_rows():
    rng = np.random.default_rng(1)
    rows, targets = rng.normal(size=(12, 5)), rng.normal(size=(12, 3))
    model = Ridge(alpha=0.7, fit_intercept=False).fit(rows[:8], targets[:8])
    expected = np.square(model.predict(rows[8:]) - targets[8:]).sum(1).mean()
    found = _ridge_loss(rows @ rows[:8].T, targets, 8, 0.7)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("with_validation", [True, False])
def test_a_graph_between_equals_serves_better_than_one_of_chance(blocks, with_validation):
    features, graph, classes = blocks
    chance = np.triu(np.random.default_rng(1).random((60, 60)) < 0.2, 1)
    chance = sp.csr_matrix((chance | chance.T).astype(float))
    train, held = np.arange(24), np.arange(24, 44)
    labels = Labels(train, classes[train], 60, 2)
    validation = Validation(torch.from_numpy(held), torch.from_numpy(classes[held]))
    losses = [
        probe_loss(given, features, labels, validation if with_validation else None, 0)
        for given in (graph, chance)
    ]
    assert losses[0] < 0.95 * losses[1]


def test_many_labels_are_sampled_the_same_way_for_the_same_seed():
    rng = np.random.default_rng(2)
    n = 1500
    features, classes = rng.normal(size=(n, 4)), rng.integers(0, 3, n)
    labels = Labels(np.arange(n), classes, n, 3)
    alone = sp.eye(n, format="csr")
    first, again, other = (probe_loss(alone, features, labels, None, seed) for seed in (0, 0, 1))
    assert first == again != other
