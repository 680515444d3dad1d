"""What people hand to the estimator: frames, names, missing values, tensors, PyG data."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from glnn import GLNNClassifier
from glnn.data import NodeData
from glnn.data.arguments import to_pyg
from glnn.exceptions import InputError

NAMES = [f"person {k}" for k in range(24)]


def frame(order=None):
    """Two groups of 12 people who differ in age and height."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1], 12)
    values = rng.normal(size=(24, 2)) + 4 * group[:, None]
    people = pd.DataFrame(values, columns=["age", "height"], index=NAMES)
    return people if order is None else people.iloc[order]


def labels(index):
    known = {"person 0": "u", "person 1": "u", "person 12": "v", "person 13": "v"}
    return pd.Series([known.get(name, pd.NA) for name in index], index=index)


def friends():
    """Each person knows the next two of the same group."""
    network = nx.Graph()
    network.add_nodes_from(NAMES[::-1])
    for start in (0, 12):
        ring = NAMES[start : start + 12]
        network.add_edges_from(
            (ring[k], ring[(k + step) % 12]) for k in range(12) for step in (1, 2)
        )
    return network


def fitted(*arguments, **options):
    return GLNNClassifier(n_epochs=10, n_rounds=1, random_state=0).fit(*arguments, **options)


def test_a_network_means_the_same_for_rows_in_any_order():
    people = frame()
    straight = fitted(people, labels(people.index), friends())
    edges = pd.DataFrame(friends().edges, columns=["source", "target"])
    assert (
        straight.prior_graph_ != fitted(people, labels(people.index), edges).prior_graph_
    ).nnz == 0
    order = np.random.default_rng(1).permutation(24)
    turned = fitted(frame(order), labels(frame(order).index), friends())
    back = np.argsort(order)
    difference = straight.prior_graph_ - turned.prior_graph_[back][:, back]
    assert abs(difference).max() < 1e-6


def test_pyg_data_and_records_go_straight_into_fit():
    pytest.importorskip("torch_geometric")
    numbers = np.repeat([0, 1], 12)
    edges = nx.to_scipy_sparse_array(friends(), nodelist=NAMES)
    parts = {"train": [0, 1, 12, 13], "val": [2, 14], "test": [5, 20]}
    splits = {key: np.array(nodes) for key, nodes in parts.items()}
    data = NodeData.from_arrays(frame().to_numpy(), numbers, edges=edges, splits=splits)
    shown = np.full(24, -1)
    shown[[0, 1, 12, 13, 2, 14]] = [0, 0, 1, 1, 0, 1]
    plain = fitted(data.features, shown, data.graph, [2, 14])
    pyg = to_pyg(data)
    for model in (fitted(data), fitted(pyg)):
        assert np.allclose(model.label_distributions_, plain.label_distributions_, atol=1e-5)
    with pytest.raises(InputError, match=r"fit\(data\)"):
        fitted(pyg.x, pyg.y, pyg)
