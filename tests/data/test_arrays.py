import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data import arrays
from glnn.exceptions import DataFormatError, InputError

SETTINGS = settings(settings.get_profile("records"))


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(0, 9, width=32))))
def test_a_graph_from_pairs_is_the_largest_weight_of_either_direction(triples):
    dense = np.zeros((6, 6), dtype=np.float32)
    for i, j, w in triples:
        if i != j:
            dense[i, j] = dense[j, i] = max(dense[i, j], w)
    columns = np.array(triples, dtype=np.float64).reshape(-1, 3)
    graph = arrays.symmetric_from_pairs(
        columns[:, 0].astype(int), columns[:, 1].astype(int), 6, columns[:, 2]
    )
    assert np.array_equal(graph.toarray(), dense)
    arrays.check_adjacency(graph, 6)


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5))))
def test_without_weights_every_edge_weighs_one(pairs):
    columns = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    plain = arrays.symmetric_from_pairs(columns[:, 0], columns[:, 1], 6)
    weighted = arrays.symmetric_from_pairs(columns[:, 0], columns[:, 1], 6, np.ones(len(pairs)))
    assert np.array_equal(plain.toarray(), weighted.toarray())


def test_upper_pairs_list_each_edge_once():
    graph = arrays.symmetric_from_pairs(np.array([3, 0]), np.array([1, 2]), 4)
    rows, columns, weights = arrays.upper_pairs(graph)
    assert list(zip(rows, columns, weights)) == [(0, 2, 1.0), (1, 3, 1.0)]


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (sp.csr_matrix([[0, 1], [0, 0]]), "symmetric"),
        (sp.csr_matrix([[1, 0], [0, 0]]), "empty diagonal"),
        (sp.csr_matrix([[0, -1], [-1, 0]]), "negative"),
        (sp.csr_matrix((3, 3)), "shape"),
        (np.zeros((2, 2)), "sparse"),
    ],
)
def test_a_graph_that_is_no_undirected_graph_is_refused(graph, message):
    with pytest.raises(InputError, match=message):
        arrays.check_adjacency(graph, 2)


@pytest.mark.parametrize(
    ("data", "indices", "indptr", "shape"),
    [
        ([1.0], [0], [0, 1], (2, 2)),
        ([1.0], [5], [0, 1, 1], (2, 2)),
        ([1.0], [-1], [0, 1, 1], (2, 2)),
        ([1.0], [0], [0, 2, 1], (2, 2)),
        ([1.0], [0, 1], [0, 1, 2], (2, 2)),
        ([1.0], [0.0], [0, 1, 1], (2, 2)),
    ],
)
def test_csr_arrays_that_do_not_fit_are_refused(data, indices, indptr, shape):
    with pytest.raises(DataFormatError):
        arrays.checked_csr(np.array(data), np.array(indices), np.array(indptr), shape)


@SETTINGS
@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1))
def test_ids_that_are_whole_numbers_are_kept_as_such(numbers):
    ids = arrays.canonical_ids([str(n) for n in numbers], len(numbers))
    assert ids.dtype == np.int64
    assert ids.tolist() == numbers


@pytest.mark.parametrize(
    "texts", [["01", "2"], ["1", "a"], ["-0", "3"], [str(2**63), "1"], ["²", "1"]]
)
def test_ids_that_only_look_like_numbers_stay_text(texts):
    assert arrays.canonical_ids(texts, 2).tolist() == texts


@pytest.mark.parametrize(
    ("ids", "message"),
    [(["a", "a"], "distinct"), (["", "b"], "empty"), (["a"], "one id"), (["a\0", "b"], "NUL")],
)
def test_bad_ids_are_refused(ids, message):
    with pytest.raises(InputError, match=message):
        arrays.canonical_ids(ids, 2)


def test_class_names_sort_as_numbers_where_they_are_numbers():
    assert arrays.sorted_class_names(["10", "9", "9"]) == ["9", "10"]
    assert arrays.sorted_class_names(["10", "9", "x"]) == ["10", "9", "x"]


@pytest.mark.parametrize("names", [["a", "a"], [" ", "b"], ["\ud800", "b"], ["a"]])
def test_bad_names_are_refused(names):
    with pytest.raises(InputError, match="names"):
        arrays.check_names("names", names, 2)


def test_too_many_columns_are_refused_before_memory_is_taken():
    huge = sp.csr_matrix((1, arrays.MAX_COLUMNS + 1), dtype=np.float32)
    with pytest.raises(InputError, match="columns"):
        arrays.canonical_csr("features", huge)


def test_codes_that_come_again_are_there_once_and_in_order():
    codes = np.random.default_rng(0).integers(0, 50, 400)
    np.testing.assert_array_equal(arrays.distinct_codes(codes), np.unique(codes))
    assert arrays.distinct_codes(codes[:0]).size == 0
