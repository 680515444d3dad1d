import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.engine.classifier import build_head
from glnn.engine.new_nodes import ExtendedGraph, NewNodes
from glnn.engine.settings import HeadSettings
from glnn.graph import SparseAdjacency
from glnn.graph.prior import normalized
from glnn.graph.random_walk import RandomWalk, with_loops, without_loops
from glnn.nn import GCN, Features, PropagationNet
from glnn.nn.rows import RowNet


def network(kind, n_features=20):
    generator = torch.Generator().manual_seed(0)
    if kind in ("linear", "hops"):
        return build_head(HeadSettings(head=kind, n_hidden=4), n_features, 2, generator)
    if kind == "gcn":
        return GCN(n_features, 2, n_hidden=4, dropout=0.5, generator=generator)
    return PropagationNet(
        n_features,
        2,
        n_hidden=4,
        dropout=0.5,
        drop_node=0.5,
        n_steps=3,
        teleport=0.0,
        generator=generator,
    )


def answer(nodes, module):
    return nodes.on_rows(module) if isinstance(module, RowNet) else nodes.on_graph(module)


def test_the_extended_graph_is_the_block_matrix():
    old = sp.csr_matrix(np.array([[0.0, 0.5], [0.5, 0.0]]))
    links = sp.csr_matrix(np.array([[0.3, 0.0]]))
    x = torch.arange(3.0, dtype=torch.float64)[:, None]
    whole = torch.tensor([[0, 0.5, 0], [0.5, 0, 0], [0.3, 0, 0.2]], dtype=torch.float64)
    assert_close(ExtendedGraph(old, links, np.array([0.2])) @ x, whole @ x)


def test_the_answer_for_a_node_does_not_depend_on_the_others_in_the_call(blocks):
    features, graph, _ = blocks
    links = sp.csr_matrix(graph[:5])
    together = NewNodes(graph, features, features[:5], links, np.zeros(5))
    each = [NewNodes(graph, features, features[i], links[i], np.zeros(1)) for i in range(5)]
    for kind in ("gcn", "propagation", "linear", "hops"):
        module = network(kind)
        alone = [answer(node, module)[0] for node in each]
        np.testing.assert_allclose(answer(together, module), alone, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kind", ["linear", "hops"])
def test_a_copy_of_a_node_gets_its_answer_from_a_head_on_rows(blocks, kind):
    features, graph, _ = blocks
    graph = sp.csr_matrix(graph)
    module = network(kind)
    twin = NewNodes(graph, features, features[:4], sp.csr_matrix(graph[:4]), np.zeros(4))
    walk = with_loops(graph) if kind == "linear" else without_loops(graph)
    known = module(RandomWalk.of(walk), Features.of(features)).softmax(1).detach().numpy()
    if kind == "linear":  # the copy's loop is its own, its neighbours' links lead to the original
        assert np.abs(twin.on_rows(module) - known[:4]).max() < 0.02
    else:
        np.testing.assert_allclose(twin.on_rows(module), known[:4], atol=1e-5)


@pytest.mark.parametrize("kind", ["gcn", "propagation"])
def test_a_copy_of_a_node_gets_its_answer_from_a_head_on_the_graph(blocks, kind):
    features, graph, _ = blocks
    graph = sp.csr_matrix(graph.multiply(1 + np.arange(60)[:, None] + np.arange(60)))  # uneven
    module = network(kind)
    twin = NewNodes(graph, features, features[:4], sp.csr_matrix(graph[:4]), np.zeros(4))
    adj_hat = SparseAdjacency.from_scipy(normalized(graph), dtype=torch.float32)
    known = module(adj_hat, Features.of(features)).softmax(1).detach().numpy()
    np.testing.assert_allclose(twin.on_graph(module), known[:4], atol=1e-5)
    assert np.abs(np.diff(known[:4], axis=0)).max() > 1e-3


def test_a_node_without_links_is_classified_by_its_own_features(blocks):
    features, graph, _ = blocks
    module = network("gcn")
    node = NewNodes(graph, features, features[:1], sp.csr_matrix((1, 60)), np.zeros(1))
    found = node.on_graph(module)
    alone = ExtendedGraph(sp.csr_matrix((1, 1)), sp.csr_matrix((0, 1)), np.zeros(0))
    assert alone.n_nodes == 1
    x = torch.from_numpy(features[:1].toarray()).double()
    w = {name: value.double() for name, value in module.state_dict().items()}
    hidden = torch.relu(x @ w["first.weight"] + w["first.bias"])
    expected = (hidden @ w["second.weight"] + w["second.bias"]).softmax(1)
    assert_close(torch.from_numpy(found), expected)


def test_old_nodes_keep_their_scores(blocks):
    features, graph, _ = blocks
    module = network("propagation").double()
    graph_hat = normalized(graph)
    extended = ExtendedGraph(graph_hat, sp.csr_matrix(graph[:2]), np.zeros(2))
    stacked = sp.vstack([features, features[:2]], format="csr")
    both = module(extended, Features.of(stacked, dtype=torch.float64))
    alone = ExtendedGraph(graph_hat, sp.csr_matrix((0, 60)), np.zeros(0))
    old = module(alone, Features.of(features, dtype=torch.float64))
    assert_close(both[:60], old)
