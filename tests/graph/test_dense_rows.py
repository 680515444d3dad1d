import numpy as np
import pytest
import scipy.sparse as sp

from glnn.graph.dense_rows import dense_rows

ROWS = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.csc_matrix, sp.coo_array])
@pytest.mark.parametrize("rows", [ROWS, ROWS + 1, ROWS[:0]])
def test_an_array_has_the_entries_of_the_matrix(form, rows):
    np.testing.assert_array_equal(dense_rows(form(rows)), rows)


def test_entries_that_are_all_stored_are_not_copied():
    full = sp.csr_matrix(ROWS + 1)
    assert np.shares_memory(dense_rows(full), full.data)


def test_entries_out_of_order_or_twice_are_put_in_their_places():
    swapped = sp.csr_matrix(([2.0, 1.0], [1, 0], [0, 2]), shape=(1, 2))
    doubled = sp.csr_matrix(([2.0, 1.0], [1, 1], [0, 2]), shape=(1, 2))
    assert dense_rows(swapped).tolist() == [[1.0, 2.0]]
    assert dense_rows(doubled).tolist() == [[0.0, 3.0]]
