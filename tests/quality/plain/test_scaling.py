import numpy as np
import scipy.sparse as sp

from glnn.quality.plain.scaling import comparable_features, row_normalized, scaled, standardized


def test_sparse_and_dense_rows_are_divided_by_their_sum_alike():
    x = np.random.default_rng(0).integers(0, 4, (6, 5)).astype(float)
    sums = np.maximum(x.sum(1, keepdims=True), 1)
    np.testing.assert_allclose(row_normalized(x), x / sums)
    np.testing.assert_allclose(row_normalized(sp.csr_matrix(x)).toarray(), x / sums)


def test_negative_features_are_standardised_instead_of_divided_by_their_sum():
    x = np.array([[-1.0, 2.0], [1.0, 4.0]])
    np.testing.assert_allclose(row_normalized(x), [[-1, -1], [1, 1]])


def test_sparse_columns_are_scaled_to_variance_one_but_not_shifted():
    x = sp.random(50, 4, density=0.4, random_state=0, format="csr")
    found = standardized(x)
    np.testing.assert_allclose(found.toarray().std(0), 1)
    assert found.nnz == x.nnz


def test_dense_columns_and_sparse_rows_get_length_one():
    x = np.random.default_rng(0).random((7, 3))
    np.testing.assert_allclose((scaled(x) ** 2).mean(0), 1)
    np.testing.assert_allclose((scaled(sp.csr_matrix(x)).toarray() ** 2).sum(1), 1)


def test_words_are_left_to_the_methods_and_units_are_not():
    words = sp.csr_matrix(np.eye(4, dtype=np.float32))
    assert comparable_features(words) is words
    units = np.array([[1.0, 5.0, 1000.0], [2.0, 7.0, 3000.0], [3.0, 6.0, 2000.0]])
    np.testing.assert_allclose(comparable_features(units).std(0), 1, rtol=1e-6)
