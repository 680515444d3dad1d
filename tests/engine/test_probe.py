import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.linear_model import Ridge

from glnn.distributed import Partition
from glnn.engine import probe
from glnn.engine.probe import (
    channel_weights,
    loss_of_rows,
    probe_loss,
    propagate_features,
    ridge_loss,
)
from glnn.engine.tasks import Labels
from glnn.engine.trainer import Validation
from glnn.graph.prior import normalize_adjacency

# Probe

SEVEN_TENTHS = torch.tensor(0.7, dtype=torch.float64)
EVEN = torch.ones(60, dtype=torch.float64)


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("is_sparse", [True, False])
def test_spread_features_are_rows_of_the_mean_of_powers(blocks, together, is_sparse, size):
    features, graph, _ = blocks
    adj_hat, dense = normalize_adjacency(graph).toarray(), features.toarray()
    whole = (np.eye(60) + adj_hat + adj_hat @ adj_hat) / 3 @ dense
    nodes = np.array([5, 0, 41, 59])
    given = features if is_sparse else dense

    def work(peers):
        part = Partition(60, peers)
        return propagate_features(graph[part.rows], given[part.rows], nodes, part).numpy()

    for found in together(size, work):
        np.testing.assert_allclose(found, whole[nodes], atol=1e-12)


def test_the_least_error_is_that_of_the_best_ridge():
    rng = np.random.default_rng(3)
    rows, classes = rng.normal(size=(20, 5)), rng.integers(0, 3, 20)
    targets = np.eye(3)[classes] - 1 / 3
    size = np.square(rows[:12]).sum() / 12
    columns = np.hstack([rows, np.full((20, 1), np.sqrt(size))])  # with an intercept
    errors = []
    for ridge in (0.01, 0.03, 0.1, 0.3, 1.0, 3.0):
        model = Ridge(alpha=ridge * size, fit_intercept=False).fit(columns[:12], targets[:12])
        errors.append(np.square(model.predict(columns[12:]) - targets[12:]).sum(1).mean())
    found = loss_of_rows(torch.from_numpy(rows), torch.eye(3).double()[classes], 12, EVEN[:20])
    assert found == pytest.approx(min(errors))


def test_an_error_left_out_is_that_of_a_ridge_fitted_without_the_row():
    rng = np.random.default_rng(0)
    rows, targets = rng.normal(size=(12, 5)), rng.normal(size=(12, 3))
    kernel, errors = rows @ rows.T, []
    for out in range(12):
        rest = np.arange(12) != out
        model = Ridge(alpha=0.7, fit_intercept=False).fit(rows[rest], targets[rest])
        errors.append(np.square(model.predict(rows[[out]]) - targets[out]).sum())
    given = torch.from_numpy(kernel), torch.from_numpy(targets)
    found = ridge_loss(*given, 12, SEVEN_TENTHS, EVEN[:12])
    assert float(found) == pytest.approx(np.mean(errors))


@pytest.mark.parametrize("n_known", [12, 8])
def test_a_row_of_weight_two_counts_as_two_rows(n_known):
    rng = np.random.default_rng(4)
    rows, targets = rng.normal(size=(12, 5)), rng.normal(size=(12, 3))
    weights = np.where(np.arange(12) % 3 == 0, 2, 1)
    model = Ridge(alpha=0.7, fit_intercept=False)
    errors = []
    for out in range(12) if n_known == 12 else range(8, 12):
        rest = np.arange(n_known) != out
        model.fit(rows[:n_known][rest], targets[:n_known][rest], weights[:n_known][rest])
        errors.append(np.square(model.predict(rows[[out]]) - targets[out]).sum())
    expected = np.average(errors, weights=weights if n_known == 12 else weights[8:])
    kernel, counted = torch.from_numpy(rows @ rows[:n_known].T), torch.from_numpy(weights * 1.0)
    found = ridge_loss(kernel, torch.from_numpy(targets), n_known, SEVEN_TENTHS, counted)
    assert float(found) == pytest.approx(expected)


def test_weights_of_labels_reach_the_probe(blocks):
    features, graph, classes = blocks
    labels = Labels(np.arange(24), classes[:24], 60, 2)
    weighted = labels.with_weights(1.0 + 3.0 * (classes[:24] == 0))
    even, equal, uneven = (
        probe_loss(graph, features, known, None, 0)
        for known in (labels, labels.with_weights(np.full(24, 3.0)), weighted)
    )
    assert even == equal != uneven


def test_validation_errors_are_those_of_a_ridge_on_the_labelled_rows():
    rng = np.random.default_rng(1)
    rows, targets = rng.normal(size=(12, 5)), rng.normal(size=(12, 3))
    model = Ridge(alpha=0.7, fit_intercept=False).fit(rows[:8], targets[:8])
    expected = np.square(model.predict(rows[8:]) - targets[8:]).sum(1).mean()
    kernel = torch.from_numpy(rows @ rows[:8].T)
    found = ridge_loss(kernel, torch.from_numpy(targets), 8, SEVEN_TENTHS, EVEN[:12])
    assert float(found) == pytest.approx(expected)


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


def test_the_best_of_six_ridges_counts(monkeypatch):
    tried = []

    def loss(kernel, targets, n_known, ridge, weights):
        tried.append(float(ridge))
        return (ridge - 0.3).abs()

    monkeypatch.setattr(probe, "ridge_loss", loss)
    rows = torch.ones(4, 1, dtype=torch.float64)  # the kernel has ones: a ridge is its share
    assert loss_of_rows(rows, torch.eye(4, dtype=torch.float64), 2, EVEN[:4]) == 0
    assert tried == [0.01, 0.03, 0.1, 0.3, 1.0, 3.0]


# Column weights


def test_a_word_of_one_class_weighs_more_than_a_word_of_all():
    classes = np.arange(40) % 2
    probabilities = np.eye(2)[classes]
    words = sp.csr_matrix(np.stack([classes == 0, np.ones(40)], 1).astype(float))
    weights = channel_weights(words, probabilities)
    assert weights[0] > 10 * weights[1] >= 0
    assert weights.mean() == pytest.approx(1)


def test_word_weights_are_the_divergence_of_their_classes():
    rng = np.random.default_rng(0)
    words = sp.csr_matrix((rng.random((30, 5)) < 0.4).astype(float))
    p = rng.dirichlet(np.ones(3), 30)
    prior, mass = p.mean(0), words.toarray().T @ p
    given = (mass + prior) / (mass.sum(1) + 1)[:, None]
    direct = (given * np.log(given / prior)).sum(1)
    np.testing.assert_allclose(channel_weights(words, p), direct / direct.mean())


def test_real_columns_weigh_by_their_share_of_variance_between_classes():
    classes = np.arange(200) % 2
    rng = np.random.default_rng(0)
    x = np.stack([classes + 0.0, rng.normal(size=200)], 1)
    weights = channel_weights(x, np.eye(2)[classes])
    assert weights[0] == pytest.approx(2, abs=0.1)  # eta^2 is 1 and about 0


def test_columns_without_variation_leave_all_weights_equal():
    weights = channel_weights(np.ones((5, 3)), np.full((5, 2), 0.5))
    np.testing.assert_array_equal(weights, 1)


@pytest.mark.parametrize("lowest", [-0.01, -3.0])
def test_stored_columns_with_negative_values_are_no_words(lowest):
    rng = np.random.default_rng(0)
    x, p = rng.random((30, 4)), rng.dirichlet(np.ones(3), 30)
    x[0, 0] = lowest
    np.testing.assert_allclose(channel_weights(sp.csr_matrix(x), p), channel_weights(x, p))


def test_a_class_that_nobody_has_changes_nothing():
    rng = np.random.default_rng(0)
    x, p = rng.normal(size=(30, 4)), rng.dirichlet(np.ones(3), 30)
    more = np.column_stack([p, np.zeros(30)])
    np.testing.assert_allclose(channel_weights(x, more), channel_weights(x, p))
