import numpy as np
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph import sparse_rows
from glnn.graph.row_matrix import row_matrix

MATRIX = np.random.default_rng(3).standard_normal((17, 40))
MATRIX[MATRIX < 1] = 0


def test_few_different_rows_are_made_dense_at_a_time(monkeypatch):
    rows = row_matrix(sp.csr_matrix(MATRIX))
    monkeypatch.setattr(sparse_rows, "block_bytes_of", lambda device, on_host=0: 8 * 40 * 2)
    i, j = (torch.from_numpy(ends) for ends in np.random.default_rng(2).integers(0, 17, (2, 60)))
    assert_close(rows.dots(rows, i, j), torch.from_numpy((MATRIX[i] * MATRIX[j]).sum(1)))


def test_one_column_is_multiplied_by_the_stored_entries():
    rows = row_matrix(sp.csr_matrix(MATRIX))
    assert not rows.is_thin
    y = torch.arange(40.0, dtype=torch.float64)
    assert_close(rows.times(y[:, None])[:, 0], torch.from_numpy(MATRIX) @ y)


def test_entries_of_rows_are_found_in_order():
    rows = row_matrix(sp.csr_matrix(MATRIX))
    place, lengths = rows.entries_of(torch.tensor([5, 2, 2]))
    expected = [np.flatnonzero(MATRIX[k]) for k in (5, 2, 2)]
    assert lengths.tolist() == [len(part) for part in expected]
    assert rows.columns[place].tolist() == np.concatenate(expected).tolist()
