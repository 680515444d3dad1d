import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from glnn.quality.embedding import _MORE, embedding, unit_rows


@pytest.fixture
def spread():
    rng = np.random.default_rng(0)
    matrix = rng.random((40, 40))
    symmetric = (matrix + matrix.T) / 80
    return lambda signals: symmetric @ signals


def low_rank(rng, n_rows=40, n_columns=200, rank=5):
    return rng.standard_normal((n_rows, rank)) @ rng.standard_normal((rank, n_columns))


def test_few_columns_are_kept_as_they_are(spread):
    features = np.random.default_rng(1).standard_normal((40, 6))
    assert_allclose(embedding(features, spread), spread(features))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_products_of_rows_are_those_of_the_spread_features_if_their_rank_is_kept(make, spread):
    features = low_rank(np.random.default_rng(2))
    rows = embedding(make(features), spread, n_columns=8)
    whole = spread(features)
    assert_allclose(rows @ rows.T, whole @ whole.T, rtol=1e-8, atol=1e-8)


def test_the_seed_of_the_random_start_does_not_change_what_is_alike(spread):
    features = low_rank(np.random.default_rng(3), rank=150)
    first, second = (embedding(features, spread, n_columns=20, seed=s) for s in (0, 1))
    size = np.square(first).sum(1).max()
    assert np.abs(first @ first.T - second @ second.T).max() < 1e-2 * size


def test_rows_have_length_one_and_equal_rows_none():
    rows = unit_rows(np.array([[1.0, 2.0], [3.0, 2.0]]))
    assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    assert_allclose(unit_rows(np.ones((3, 2))), 0.0)


def test_up_to_a_few_columns_more_than_asked_for_nothing_is_lost(rng):
    x = rng.normal(size=(40, 3 + _MORE))
    rows = embedding(x, lambda v: v, n_columns=3)
    np.testing.assert_allclose(rows @ rows.T, x @ x.T)
