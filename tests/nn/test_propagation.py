"""Propagation and its network; views in one step against autograd over the same noise."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from glnn.graph import DenseAdjacency, SparseAdjacency, prior_graph
from glnn.nn import Features, PropagationNet
from glnn.nn.features import keep_mask
from glnn.nn.propagation import mean_of_powers, personalized_pagerank

# Propagation

N_NODES, N_FEATURES, N_CLASSES = 6, 9, 3


@pytest.fixture
def sparse():
    path = np.diag(np.arange(1.0, N_NODES), 1)
    matrix = prior_graph(sp.csr_matrix(path + path.T), "renormalized")
    return SparseAdjacency.from_scipy(matrix)


@pytest.fixture(params=["sparse", "dense"])
def adj_hat(request, sparse):
    return sparse if request.param == "sparse" else DenseAdjacency(sparse.to_dense())


def single(adj):
    return adj.with_values(adj.values().float())


def build(rng, *, dropout=0.0, drop_node=0.0, n_steps=3):
    net = PropagationNet(
        N_FEATURES,
        N_CLASSES,
        n_hidden=4,
        dropout=dropout,
        drop_node=drop_node,
        n_steps=n_steps,
        generator=rng,
    )
    with torch.no_grad():
        for bias in (net.first_bias, net.second_bias):
            bias.copy_(torch.randn(len(bias), generator=rng))
    return net


def spread_matrix(a, n_steps):
    powers = [torch.linalg.matrix_power(a, k) for k in range(n_steps + 1)]
    return torch.stack(powers).mean(0)


@pytest.mark.parametrize("n_steps", [0, 1, 4])
def test_mean_of_powers_is_the_mean_of_dense_powers(adj_hat, n_steps, rng):
    x = torch.randn(N_NODES, 2, generator=rng, dtype=torch.float64)
    expected = spread_matrix(adj_hat.to_dense(), n_steps) @ x
    assert_close(mean_of_powers(adj_hat, x, n_steps), expected)


def test_pagerank_of_many_steps_is_the_dense_inverse(adj_hat, rng):
    x = torch.randn(N_NODES, 2, generator=rng, dtype=torch.float64)
    identity = torch.eye(N_NODES, dtype=torch.float64)
    inverse = 0.2 * torch.linalg.inv(identity - 0.8 * adj_hat.to_dense())
    assert_close(personalized_pagerank(adj_hat, x, 200, 0.2), inverse @ x)


@pytest.mark.parametrize(
    "spread",
    [lambda a, x: mean_of_powers(a, x, 3), lambda a, x: personalized_pagerank(a, x, 3, 0.2)],
    ids=["mean of powers", "pagerank"],
)
def test_the_gradients_of_spreading_agree_with_finite_differences(sparse, spread, rng):
    x = torch.randn(N_NODES, 2, generator=rng, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: spread(sparse, x), (x,))


def test_every_storage_of_graph_and_features_gives_the_same_logits_and_gradients(
    sparse, rng, assert_storage_is_free
):
    assert_storage_is_free(build(rng), single(sparse))


def test_views_spread_together_equal_views_spread_one_by_one(sparse, x, rng):
    net, adj_hat, features = build(rng, drop_node=0.5), single(sparse), Features.of(x)
    together = net.views(adj_hat, features, 3, torch.Generator().manual_seed(7))
    masks = keep_mask(torch.ones(3, N_NODES, 1), 0.5, torch.Generator().manual_seed(7))
    for view, mask in zip(together, masks):
        spread = mean_of_powers(adj_hat, (features @ net.first) * mask, net.n_steps)
        hidden = torch.relu(spread + net.first_bias)
        assert_close(view, hidden @ net.second + net.second_bias)
    assert not torch.equal(together[0], together[1])


# Random views

MANY_NODES, MANY_FEATURES, MANY_CLASSES = 40, 30, 3


@pytest.fixture
def walk():
    graph = sp.random(MANY_NODES, MANY_NODES, 0.1, format="csr", rng=np.random.default_rng(1))
    return SparseAdjacency.from_scipy(prior_graph(graph + graph.T, "renormalized"))


def network(dtype, **changes):
    settings = {"n_hidden": 4, "dropout": 0.5, "drop_node": 0.5, "n_steps": 3} | changes
    net = PropagationNet(
        MANY_FEATURES,
        MANY_CLASSES,
        generator=torch.Generator().manual_seed(0),
        **settings,
    )
    with torch.no_grad():
        for bias in (net.first_bias, net.second_bias):
            bias.uniform_(-0.5, 0.5, generator=torch.Generator().manual_seed(1))
    return net.to(dtype)


def features(is_sparse, dtype):
    x = sp.random(
        MANY_NODES,
        MANY_FEATURES,
        0.3,
        format="csr",
        rng=np.random.default_rng(0),
    )
    return Features.of(x if is_sparse else x.toarray(), dtype=dtype)


def views_and_gradients(net, adj_hat, x, n_views):
    logits = net.views(adj_hat, x, n_views, torch.Generator().manual_seed(5))
    weight = torch.linspace(-1, 1, logits.numel(), dtype=logits.dtype).reshape(logits.shape)
    return logits, torch.autograd.grad((logits * weight).sum(), list(net.parameters()))


@pytest.mark.parametrize("n_views", [1, 2, 3])
@pytest.mark.parametrize("is_sparse", [True, False])
@pytest.mark.parametrize(
    "changes", [{}, {"dropout": 0.0}, {"drop_node": 0.0}, {"n_steps": 0}, {"dropout": 0.3}], ids=str
)
def test_values_and_gradients_are_those_of_autograd(walk, n_views, is_sparse, changes):
    net, x = network(torch.float64, **changes), features(is_sparse, torch.float64)
    ours = views_and_gradients(net, walk, x, n_views)
    asked_for = DenseAdjacency(walk.to_dense().requires_grad_())  # step by step
    assert_close(ours, views_and_gradients(net, asked_for, x, n_views))
