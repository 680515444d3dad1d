import numpy as np
import pytest
import scipy.sparse as sp

from glnn.distributed import Partition
from glnn.engine.metric import channel_weights


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


@pytest.mark.parametrize("is_sparse", [True, False], ids=["words", "columns"])
def test_processes_weigh_columns_as_one_does(blocks, together, is_sparse):
    features = blocks[0] if is_sparse else blocks[0].toarray() - 0.3
    p = np.random.default_rng(0).dirichlet(np.ones(2), 60)
    whole = channel_weights(features, p)
    assert whole.std() > 0

    def work(peers):
        rows = Partition(60, peers).rows
        return channel_weights(features[rows], p[rows], peers)

    for found in together(3, work):
        np.testing.assert_allclose(found, whole)
