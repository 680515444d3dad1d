import hashlib

import numpy as np
import scipy.sparse as sp

from glnn.engine.row_index import known_distributions, row_digests

ROWS = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
DISTRIBUTIONS = np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.5], [1.0, 0.0]])


def test_equal_rows_have_equal_digests_whatever_their_storage_and_precision():
    dense = row_digests(ROWS)
    np.testing.assert_array_equal(dense, row_digests(sp.csr_matrix(ROWS)))
    np.testing.assert_array_equal(dense, row_digests(ROWS.astype(np.float32)))
    np.testing.assert_array_equal(dense[0], dense[2])
    assert (dense[0] != dense[1]).any()


def test_a_digest_is_that_of_columns_and_values():
    content = np.array([1]).tobytes() + np.array([1.0]).tobytes()
    expected = [hashlib.blake2b(content, digest_size=16), hashlib.blake2b(digest_size=16)]
    found = row_digests(ROWS)[[0, 3]]
    assert [bytes(row) for row in found] == [one.digest() for one in expected]
    assert row_digests(np.zeros((2, 3))).shape == (2, 16)


def test_rows_with_and_without_zeros_have_the_digests_of_their_sparse_form():
    rows = np.random.default_rng(0).normal(size=(9000, 3))  # more than a block
    rows[::7, 1] = 0.0
    rows[5] = -0.0
    np.testing.assert_array_equal(row_digests(rows), row_digests(sp.csr_matrix(rows)))
    full = sp.csr_matrix(np.abs(rows) + 1)
    np.testing.assert_array_equal(row_digests(full), row_digests(full.toarray()))
    np.testing.assert_array_equal(row_digests(rows[:, ::-1]), row_digests(rows[:, ::-1].copy()))
    assert row_digests(rows[:0]).shape == (0, 16)


def test_an_explicit_zero_and_an_unsorted_row_change_nothing():
    csr = sp.csr_matrix(([0.0, 5.0, 1.0], [2, 1, 0], [0, 3]), shape=(1, 3))
    np.testing.assert_array_equal(row_digests(csr), row_digests(np.array([[1.0, 5.0, 0.0]])))
    assert csr.nnz == 3  # the caller's matrix is as it was


def test_all_training_rows_in_order_get_exactly_their_own():
    digests = row_digests(ROWS)
    seen, found = known_distributions(digests, digests, DISTRIBUTIONS)
    assert seen.all()
    np.testing.assert_array_equal(found, DISTRIBUTIONS)


def test_a_row_that_equals_several_gets_their_mean_and_an_unknown_row_is_new():
    new = np.array([[0.0, 1.0], [5.0, 5.0], [2.0, 0.0]])
    seen, found = known_distributions(row_digests(new), row_digests(ROWS), DISTRIBUTIONS)
    assert seen.tolist() == [True, False, True]
    np.testing.assert_allclose(found, [[0.7, 0.3], [0.2, 0.8]])
