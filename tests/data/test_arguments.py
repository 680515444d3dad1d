import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from glnn.data import NodeData
from glnn.data.arguments import (
    align_graph,
    as_fit_arguments,
    convert_labels,
    find_row,
    resolve_row_names,
    to_pyg,
)
from glnn.exceptions import InputError

# Features, labels and graph

NAMES = ["ann", "bob", "cy", "dan"]
PEOPLE = pd.DataFrame({"age": [30.0, 40, 50, 60]}, index=NAMES)
PATH = np.diag([1.0, 2.0, 3.0], 1) + np.diag([1.0, 2.0, 3.0], -1)


def named_network(order):
    """The path ann - bob - cy - dan, its nodes added in some order."""
    network = nx.Graph()
    network.add_nodes_from(order)
    network.add_weighted_edges_from([("cy", "dan", 3.0), ("ann", "bob", 1.0), ("cy", "bob", 2.0)])
    return network


@pytest.mark.parametrize("order", [NAMES, NAMES[::-1], ["cy", "ann", "dan", "bob"]])
def test_a_network_is_matched_by_name_whatever_its_order(order):
    _, _, graph, _ = as_fit_arguments(PEOPLE, [0, 1, -1, -1], named_network(order))
    assert np.array_equal(graph.toarray(), PATH)


@pytest.mark.parametrize(
    ("network", "ids", "message"),
    [
        (named_network(NAMES), None, r"4 unknown ids \('ann', 'bob', 'cy', ...\).*index of a Data"),
        (nx.path_graph(3), NAMES, r"3 unknown ids .*names such as 'ann'"),
        (nx.Graph([("ann", "zoe")]), NAMES, r"1 unknown id \('zoe'\)"),
        (named_network(NAMES), ["ann", "ann", "bob", "cy"], "a distinct name"),
        (nx.Graph([("ann", "bob", {"weight": -1})]), NAMES, "at least 0"),
        (nx.Graph([("ann", "bob", {"weight": "x"})]), NAMES, "weights of edges must be numbers"),
    ],
)
def test_names_that_cannot_be_matched_are_refused(network, ids, message):
    with pytest.raises(InputError, match=message) as caught:
        align_graph(network, ids, 4)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "columns", [("source", "target", "weight"), ("From", "To", "w"), ("u", "v", "value")]
)
def test_a_frame_of_edges_is_matched_by_name(columns):
    edges = pd.DataFrame([("cy", "dan", 3), ("bob", "ann", 1), ("bob", "cy", 2)], columns=columns)
    assert np.array_equal(align_graph(edges, NAMES, 4).toarray(), PATH)
    unit = align_graph(edges[list(columns[:2])], NAMES, 4)
    assert np.array_equal(unit.toarray(), PATH > 0)


def test_a_square_frame_is_put_in_the_order_of_the_rows():
    square = pd.DataFrame(PATH, index=NAMES, columns=NAMES)
    turned = square.sample(frac=1, random_state=0).sample(frac=1, random_state=1, axis=1)
    assert np.array_equal(align_graph(turned, NAMES, 4), PATH)
    odd = ["source", *NAMES[1:]]  # one such name makes no list of edges
    assert np.array_equal(align_graph(square.set_axis(odd).set_axis(odd, axis=1), odd, 4), PATH)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), r"2 unknown ids \('x', 'y'\)"),
        (pd.DataFrame({"source": ["ann"], "target": [None]}), "two ends"),
        (pd.DataFrame({"source": ["ann"], "target": ["bob"], "weight": ["x"]}), "must be numbers"),
        (pd.DataFrame({"source": [0], "target": [9]}), r"2 unknown ids \('0', '9'\)"),
    ],
)
def test_frames_that_are_no_graph_of_the_rows_are_refused(frame, message):
    with pytest.raises(InputError, match=message):
        align_graph(frame, NAMES, 4)


@pytest.mark.parametrize(
    ("labels", "plain"),
    [
        (pd.Series(["u", None, "v"]), ["u", None, "v"]),
        (pd.Series(["u", pd.NA, "v"], dtype="string"), ["u", None, "v"]),
        (pd.Series(pd.Categorical(["u", None, "v"])), ["u", None, "v"]),
        (pd.Series([1, None, 0], dtype="Int64"), [1, -1, 0]),
        (["u", pd.NA, "v"], ["u", None, "v"]),
        (np.array(["u", pd.NaT, np.nan], dtype=object), ["u", None, None]),
        (pd.DataFrame({"y": [1, 0]}), [1, 0]),
        ([0, 1], [0, 1]),
    ],
)
def test_what_pandas_calls_missing_is_unlabelled(labels, plain):
    assert list(convert_labels(labels)) == plain


def test_labels_with_the_names_of_the_rows_in_another_order_are_refused():
    labels = pd.Series([0, 1, 0, 1], index=NAMES)
    assert as_fit_arguments(PEOPLE, labels)[1].tolist() == [0, 1, 0, 1]
    assert as_fit_arguments(PEOPLE, labels.reset_index(drop=True))[1].tolist() == [0, 1, 0, 1]
    with pytest.raises(InputError, match=r"y\.loc\[X\.index\]"):
        as_fit_arguments(PEOPLE, labels[::-1])


def test_tensors_with_gradients_are_detached():
    torch = pytest.importorskip("torch")
    x = torch.ones(3, 2, requires_grad=True) * 2
    pairs = torch.tensor([[0, 1], [1, 2]])
    found = as_fit_arguments(x, torch.tensor([0, 1, -1]), pairs, torch.tensor([1]))
    assert all(isinstance(part, np.ndarray) for part in found)
    assert found[0].tolist() == [[2, 2]] * 3
    sparse = as_fit_arguments(torch.eye(3).to_sparse(), [0, 1, -1], torch.eye(3).to_sparse())
    assert sp.issparse(sparse[0])
    assert sp.issparse(sparse[2])


def test_pyg_data_brings_features_labels_graph_and_split(small):
    pytest.importorskip("torch_geometric")
    data = to_pyg(small)
    x, y, graph, validation = as_fit_arguments(data)
    assert np.array_equal(sp.csr_matrix(x).toarray(), small.features.toarray())
    assert (graph != small.graph).nnz == 0
    assert list(validation) == [3]
    assert y.tolist() == ["a", "b", "", "b", "", ""]  # test labels are not shown


# Names of the rows

TWICE_NAMED = np.array(["w0", "w1", "w2", "w1"])


def test_names_are_those_by_which_fit_would_join_a_graph():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=["a", "b"])
    record = NodeData.from_arrays(np.eye(2), [0, 1], ids=np.array(["a", "b"]))
    for arguments in (
        {"x": frame},
        {"x": record},
        {"x": to_pyg(record)},
        {"x": np.eye(2), "ids": ["a", "b"]},
        {"x": frame.set_axis(["c", "d"]), "ids": pd.Series(["a", "b"])},
        {"x": sp.eye(2), "ids": np.array(["a", "b"], dtype=object)},
        {"x": None, "y": pd.Series([0, 1], index=["a", "b"])},
    ):
        assert resolve_row_names(**arguments).tolist() == ["a", "b"]


def test_an_index_of_whole_numbers_that_does_not_count_names_the_rows_by_numbers():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=[7, 3])
    assert resolve_row_names(frame).tolist() == [7, 3]
    assert find_row("3", resolve_row_names(frame)) == 1
    assert find_row(3, resolve_row_names(frame)) == 3  # a number is a row's number


@pytest.mark.parametrize(
    ("node", "names", "said"),
    [
        ("w1", None, "the rows have no names"),
        ("w22", TWICE_NAMED, r"an unknown name\. Did you mean 'w2'\?"),
        ("w1", TWICE_NAMED, r"the name of 2 rows\. Give its number: 1, 3\."),
    ],
)
def test_a_name_that_is_not_that_of_one_row_is_refused_in_one_line(node, names, said):
    with pytest.raises(InputError, match=said) as caught:
        find_row(node, names)
    assert "\n" not in str(caught.value)
