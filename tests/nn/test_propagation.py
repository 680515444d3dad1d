"""Propagation and its network; views in one step against autograd over the same noise."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from glnn.graph import DenseAdjacency, SparseAdjacency, prior_graph
from glnn.nn import Features, PropagationNet
from glnn.nn.features import NetworkSettings, keep_mask
from glnn.nn.propagation import mean_of_powers

N_NODES, N_FEATURES, N_CLASSES = 40, 30, 3


@pytest.fixture
def sparse():
    graph = sp.random(N_NODES, N_NODES, 0.1, format="csr", rng=np.random.default_rng(1))
    return SparseAdjacency.from_scipy(prior_graph(graph + graph.T, "renormalized"))


def make_net(n_features=N_FEATURES, **changes):
    settings = {"n_hidden": 4, "dropout": 0.5, "drop_node": 0.5, "n_steps": 3} | changes
    generator = torch.Generator().manual_seed(0)
    net = PropagationNet(n_features, N_CLASSES, NetworkSettings(**settings), generator)
    with torch.no_grad():
        for bias in (net.first_bias, net.second_bias):
            bias.uniform_(-0.5, 0.5, generator=generator)
    return net


@pytest.mark.parametrize("n_steps", [0, 1, 4])
@pytest.mark.parametrize("is_dense", [True, False])
def test_mean_of_powers_is_the_mean_of_dense_powers(sparse, n_steps, is_dense, rng):
    dense = sparse.to_dense()
    x = torch.randn(N_NODES, 2, generator=rng, dtype=torch.float64, requires_grad=True)
    powers = torch.stack([torch.linalg.matrix_power(dense, k) for k in range(n_steps + 1)])
    adj_hat = DenseAdjacency(dense) if is_dense else sparse
    assert_close(mean_of_powers(adj_hat, x, n_steps), powers.mean(0) @ x)
    assert gradcheck(lambda x: mean_of_powers(adj_hat, x, n_steps), (x,), fast_mode=True)


def test_every_storage_of_graph_and_features_gives_the_same_logits_and_gradients(
    assert_storage_is_free,
):
    ring = np.roll(np.eye(6), 1, axis=1)
    matrix = prior_graph(sp.csr_matrix(ring + ring.T), "renormalized")
    adj_hat = SparseAdjacency.from_scipy(matrix, dtype=torch.float32)
    assert_storage_is_free(make_net(9), adj_hat)


def compute_views(net, adj_hat, x, n_views, generator):
    """The views one operation after the other, with the same random numbers."""
    mapped = [x.apply_dropout(net.dropout, generator) @ net.first for _ in range(n_views)]
    masks = keep_mask(mapped[0].detach().new_empty(n_views, N_NODES, 1), net.drop_node, generator)
    together = torch.cat([hidden * mask for hidden, mask in zip(mapped, masks)], 1)
    spread = mean_of_powers(adj_hat, together, net.n_steps)
    hidden = torch.relu(spread + net.first_bias.repeat(n_views))
    if net.dropout:
        hidden = hidden * keep_mask(spread.detach(), net.dropout, generator)
    return torch.stack([view @ net.second + net.second_bias for view in hidden.chunk(n_views, 1)])


@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize(
    "changes", [{}, {"dropout": 0.0}, {"drop_node": 0.0}, {"n_steps": 0}, {"dropout": 0.3}], ids=str
)
def test_views_and_their_gradients_are_those_of_autograd(sparse, n_views, is_sparse, changes):
    net = make_net(**changes).double()
    matrix = sp.random(N_NODES, N_FEATURES, 0.3, format="csr", rng=np.random.default_rng(0))
    x = Features.of(matrix if is_sparse else matrix.toarray(), dtype=torch.float64)
    found = []
    for views in (PropagationNet.views, compute_views):
        logits = views(net, sparse, x, n_views, torch.Generator().manual_seed(5))
        weight = torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).view(logits.shape)
        grads = torch.autograd.grad((logits * weight).sum(), list(net.parameters()))
        found.append((logits, *grads))
    assert_close(*found)
