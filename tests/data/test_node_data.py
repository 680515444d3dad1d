import copy
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data import NodeData, node_data
from glnn.exceptions import GraphWarning, InputError

# The record

SETTINGS = settings(settings.get_profile("records"))


@SETTINGS
@given(st.data())
def test_homophily_is_the_share_of_labelled_edges_inside_a_class(records, data):
    record = records(data)
    if record.graph is None:
        assert np.isnan(record.homophily)
        return
    dense, y = record.graph.toarray(), record.labels
    known = [
        y[i] == y[j]
        for i in range(record.n_nodes)
        for j in range(i)
        if dense[i, j] and y[i] >= 0 and y[j] >= 0
    ]
    if known:
        assert record.homophily == pytest.approx(np.mean(known))
    else:
        assert np.isnan(record.homophily)


def test_a_record_cannot_be_changed(small):
    with pytest.raises(AttributeError):
        small.name = "other"
    for array in (small.labels, small.features.data, small.graph.indices, small.ids):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    with pytest.raises(TypeError):
        small.splits["train"] = np.array([1])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.array([0, 1])}, "one entry for each of the 6 nodes"),
        ({"labels": np.array([0, 1, -2, 1, 0, 2])}, "-1"),
        ({"labels": np.array([0, 1, 3, 1, 0, 2])}, "below 3"),
        ({"labels": np.zeros(6)}, "whole numbers"),
        ({"class_names": ("a", "a", "c")}, "distinct"),
        ({"splits": {"train": np.array([2])}}, "labelled nodes only"),
        ({"splits": {"train": np.array([0]), "test": np.array([0])}}, "disjoint"),
        ({"splits": {"dev": np.array([0])}}, "train, val, test"),
        ({"splits": {"train": np.array([6])}}, r"\[0, 6\)"),
        ({"ids": np.array(["a"])}, "ids"),
        ({"feature_names": ("a",)}, "2 names"),
        ({"features": sp.csr_matrix(np.full((6, 2), np.nan))}, "finite"),
        ({"features": sp.csr_matrix(np.full((6, 2), 1e39))}, "float32"),
        ({"graph": sp.csr_matrix((5, 5))}, "shape"),
        ({"name": "a\0"}, "NUL"),
    ],
)
def test_a_record_that_contradicts_itself_is_refused(small, change, message):
    with pytest.raises(InputError, match=message) as caught:
        small.replace(**change)
    assert "\n" not in str(caught.value)


def test_from_arrays_takes_edges_and_numbers_the_classes():
    with pytest.warns(GraphWarning, match="self loops"):
        record = NodeData.from_arrays(np.eye(3), [1, 0, -1], edges=[[0, 1], [1, 0], [2, 2]])
    assert record.class_names == ("0", "1")
    assert record.n_edges == 1
    assert NodeData.from_arrays(np.eye(2), [0, 0], edges=[]).n_edges == 0
    with pytest.raises(InputError, match=r"\[0, 3\)"):
        NodeData.from_arrays(np.eye(3), [1, 0, -1], edges=[[0, 3]])
    with pytest.raises(InputError, match="without gaps"):
        NodeData.from_arrays(np.eye(2), [10**12, 0])


@pytest.mark.parametrize("edges", [[0, 1], [[0.0, 1.0]], [["a", "b"]], np.zeros((3, 3), int)])
def test_edges_of_another_kind_are_refused_in_one_line(edges):
    with pytest.raises(InputError, match=r"2 x E|array of edges|two rows or two") as caught:
        NodeData.from_arrays(np.eye(5), [0, 1, 0, 1, 0], edges=edges)
    assert "\n" not in str(caught.value)


def test_a_record_can_be_copied_and_sent_to_another_process(small):
    for again in (copy.deepcopy(small), pickle.loads(pickle.dumps(small))):
        assert again.equals(small)
        assert not again.labels.flags.writeable
        assert dict(again.provenance) == dict(small.provenance)


def test_equals_sees_every_difference(small):
    assert small.equals(small.replace(name="other", provenance={"from": "elsewhere"}))
    for change in (
        {"labels": np.array([0, 1, -1, 1, 0, 1])},
        {"ids": None},
        {"graph": None},
        {"splits": {}},
        {"features": small.features * 2},
        {"feature_names": None},
        {"class_names": ("a", "b", "d")},
    ):
        assert not small.equals(small.replace(**change))


# Arrays in canonical form


@SETTINGS
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.floats(0, 9, width=32))))
def test_a_graph_from_pairs_is_the_largest_weight_of_either_direction(triples):
    dense = np.zeros((6, 6), dtype=np.float32)
    for i, j, w in triples:
        if i != j:
            dense[i, j] = dense[j, i] = max(dense[i, j], w)
    columns = np.array(triples, dtype=np.float64).reshape(-1, 3)
    graph = node_data.symmetric_from_pairs(
        columns[:, 0].astype(int), columns[:, 1].astype(int), 6, columns[:, 2]
    )
    assert np.array_equal(graph.toarray(), dense)
    node_data.check_adjacency(graph, 6)


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
        node_data.check_adjacency(graph, 2)


@SETTINGS
@given(st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1))
def test_ids_that_are_whole_numbers_are_kept_as_such(numbers):
    ids = node_data.canonicalize_ids([str(n) for n in numbers], len(numbers))
    assert ids.dtype == np.int64
    assert ids.tolist() == numbers


@pytest.mark.parametrize(
    "texts", [["01", "2"], ["1", "a"], ["-0", "3"], [str(2**63), "1"], ["²", "1"]]
)
def test_ids_that_only_look_like_numbers_stay_text(texts):
    assert node_data.canonicalize_ids(texts, 2).tolist() == texts


def test_a_record_is_shown_in_one_line():
    data = NodeData.from_arrays(np.eye(3), [0, 1, -1], edges=[[0, 1]], name="small")
    sizes = "3 nodes, 3 features, 2 classes, 2 labels"
    assert repr(data) == f"NodeData(small: {sizes}, 1 edges)"
    assert repr(data.replace(graph=None)) == f"NodeData(small: {sizes}, no graph)"
