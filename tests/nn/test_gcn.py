import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from glnn.graph import DenseAdjacency, SparseAdjacency, prior_graph
from glnn.nn import GCN, Features, GraphLearningLayer
from glnn.nn.features import NetworkSettings

# GCN

N_NODES, N_FEATURES, N_CLASSES = 6, 9, 3


@pytest.fixture
def adj_hat():
    ring = np.roll(np.eye(N_NODES), 1, axis=1)
    matrix = prior_graph(sp.csr_matrix(ring + ring.T), "renormalized")
    return SparseAdjacency.from_scipy(matrix, dtype=torch.float32)


@pytest.fixture
def net(rng):
    net = GCN(N_FEATURES, N_CLASSES, NetworkSettings(n_hidden=5), rng)
    with torch.no_grad():  # the biases start at zero, where a wrong sign would not show
        for bias in (net.first.bias, net.second.bias):
            bias.copy_(torch.randn(len(bias), generator=rng))
    return net


def by_formula(net, a, x):
    hidden = torch.relu(a @ x @ net.first.weight + net.first.bias)
    return a @ hidden @ net.second.weight + net.second.bias


def test_the_network_is_the_papers_formula(net, adj_hat, x):
    dense_x = torch.from_numpy(x.toarray()).float()
    found = net(adj_hat, Features.of(x))
    assert_close(found, by_formula(net, adj_hat.to_dense(), dense_x))


def test_every_storage_of_graph_and_features_gives_the_same_logits_and_gradients(
    net, adj_hat, assert_storage_is_free
):
    assert_storage_is_free(net, adj_hat)


def test_the_gradients_agree_with_finite_differences_down_to_the_graph(net, adj_hat, x):
    net = net.double()
    features = Features.of(x.toarray())
    features = Features(features.shape, features.values.double())
    matrix = adj_hat.to_dense().double().requires_grad_()
    names, parameters = zip(*net.named_parameters(), strict=True)

    def logits(matrix, *parameters):
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(net, given, (DenseAdjacency(matrix), features))

    assert gradcheck(logits, (matrix, *parameters))


def test_views_are_passes_with_successive_dropout(net, adj_hat, x):
    features = Features.of(x)
    views = net.views(adj_hat, features, 3, torch.Generator().manual_seed(5))
    noise = torch.Generator().manual_seed(5)
    for view in views:
        assert torch.equal(view, net(adj_hat, features, noise))
    assert not torch.equal(views[0], views[1])


# Graph learning layer


def test_the_output_is_the_symmetric_part_of_the_free_matrix(rng):
    layer = GraphLearningLayer(4, generator=rng)
    out = layer().to_dense()
    assert torch.equal(out, (layer.matrix + layer.matrix.T) / 2)
    assert torch.equal(out, out.T)
