import subprocess
import sys

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data import interop
from glnn.exceptions import InputError

SETTINGS = settings(settings.get_profile("records"))


@SETTINGS
@given(st.data())
def test_networkx_and_back_is_the_identity(records, data):
    record = records(data)
    again = interop.from_networkx(interop.to_networkx(record))
    expected = record.replace(graph=interop.to_scipy(record), feature_names=None)
    assert again.equals(expected)


@SETTINGS
@given(st.data())
def test_pyg_and_back_is_the_identity(records, data):
    pytest.importorskip("torch_geometric")
    record = records(data, sorted_classes=False)
    again = interop.from_pyg(interop.to_pyg(record))
    expected = record.replace(graph=interop.to_scipy(record), feature_names=None)
    assert again.equals(expected)


def test_pyg_sees_both_directions_and_masks(small):
    pytest.importorskip("torch_geometric")
    data = interop.to_pyg(small)
    assert data.is_undirected()
    assert data.num_edges == 2 * small.n_edges
    assert data.train_mask.nonzero().ravel().tolist() == [0, 1]
    assert data.y.tolist() == small.labels.tolist()
    data.validate()


def test_a_learned_graph_takes_the_place_of_the_given_one(small):
    pytest.importorskip("torch_geometric")
    learned = sp.csr_matrix(([0.5, 0.5], ([0, 5], [5, 0])), shape=(6, 6))
    assert interop.to_networkx(small, graph=learned).number_of_edges() == 1
    assert interop.to_pyg(small, graph=learned).edge_weight.tolist() == [0.5, 0.5]
    with pytest.raises(InputError, match="6 nodes"):
        interop.to_networkx(small, graph=sp.csr_matrix((3, 3)))


@pytest.mark.parametrize("form", ["csr", "coo", "csc", "lil"])
def test_any_scipy_format_becomes_a_record(small, form):
    record = interop.from_scipy(small.graph.asformat(form), small.features, small.labels)
    assert np.array_equal(record.graph.toarray(), small.graph.toarray())
    record = interop.from_scipy(sp.csr_array(np.triu(small.graph.toarray())))
    assert np.array_equal(record.graph.toarray(), small.graph.toarray())
    assert np.array_equal(record.features.toarray(), np.eye(6))


def test_networkx_without_features_gets_the_identity():
    network = nx.MultiDiGraph([("a", "b"), ("b", "a"), ("a", "a"), ("a", 3)])
    record = interop.from_networkx(network)
    assert record.n_edges == 2
    assert record.ids.tolist() == ["a", "b", "3"]
    assert record.n_classes == 0


@pytest.mark.parametrize(
    "network",
    [
        nx.Graph(),
        nx.Graph([(0, 1, {"weight": -1})]),
        nx.Graph([(0, 1, {"weight": float("nan")})]),
    ],
)
def test_networks_that_hold_no_undirected_graph_are_refused(network):
    with pytest.raises(InputError):
        interop.from_networkx(network)


def test_features_of_some_nodes_only_are_refused():
    network = nx.Graph()
    network.add_node(0, x=[1.0])
    network.add_node(1)
    with pytest.raises(InputError, match="got 1 of 2"):
        interop.from_networkx(network)
    network.nodes[1]["x"] = [1.0, 2.0]
    with pytest.raises(InputError, match="equally long"):
        interop.from_networkx(network)


def test_pyg_without_features_is_refused():
    geometric = pytest.importorskip("torch_geometric.data")
    with pytest.raises(InputError, match="features x"):
        interop.from_pyg(geometric.Data(edge_index=torch.zeros(2, 0, dtype=torch.long)))


def test_graphs_that_are_not_square_are_refused():
    with pytest.raises(InputError, match="square"):
        interop.from_scipy(sp.csr_matrix((2, 3)))


def test_importing_the_data_part_does_not_import_torch():
    code = "import sys, glnn.data.interop; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
