import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data.arrays import symmetric_from_pairs
from glnn.data.source import RecordSource, RowSource, bounds, rows_of_pairs


def test_a_record_read_by_rows_is_the_record(small):
    source = RecordSource(small)
    assert isinstance(source, RowSource)
    for rows in (slice(0, 2), slice(2, 6), slice(3, 3)):
        assert (source.features(rows) != small.features[rows]).nnz == 0
        assert (source.graph_rows(rows) != small.graph[rows]).nnz == 0
    assert RecordSource(small.replace(graph=None)).graph_rows(slice(0, 2)) is None


@pytest.mark.parametrize(
    "change",
    [
        {"labels": np.array([0, 1, -1, 1, 0, -1]), "splits": {}},
        {"features": sp.csr_matrix(np.ones((6, 2)))},
        {"graph": None},
        {"class_names": ("a", "b", "d")},
    ],
)
def test_the_digest_changes_with_the_data(small, change):
    assert RecordSource(small).digest == RecordSource(small.replace(name="other")).digest
    assert RecordSource(small).digest != RecordSource(small.replace(**change)).digest


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_a_list_of_pairs_are_those_of_the_whole_graph(weighted):
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 20, (2, 60))
    weights = rng.random(60) if weighted else None
    whole = symmetric_from_pairs(*pairs, 20, weights)
    for rows in (slice(0, 7), slice(7, 20), slice(5, 5)):
        assert (rows_of_pairs(pairs, weights, rows, 20) != whole[rows]).nnz == 0


def test_slices_end_where_the_rows_do():
    assert bounds(slice(None), 4) == (0, 4)
    assert bounds(slice(3, 2), 4) == (3, 3)
