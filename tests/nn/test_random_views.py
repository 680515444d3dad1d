"""Views in one step against the same network by autograd, over the same noise."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph import SparseAdjacency, prior_graph
from glnn.nn import Features, PropagationNet

N_NODES, N_FEATURES, N_CLASSES = 40, 30, 3


@pytest.fixture
def adj_hat():
    graph = sp.random(N_NODES, N_NODES, 0.1, format="csr", rng=np.random.default_rng(1))
    return SparseAdjacency.from_scipy(prior_graph(graph + graph.T, "renormalized"))


def network(dtype, **changes):
    settings = {"n_hidden": 4, "dropout": 0.5, "drop_node": 0.5, "n_steps": 3} | changes
    net = PropagationNet(
        N_FEATURES, N_CLASSES, generator=torch.Generator().manual_seed(0), **settings
    )
    with torch.no_grad():
        for bias in (net.first_bias, net.second_bias):
            bias.uniform_(-0.5, 0.5, generator=torch.Generator().manual_seed(1))
    return net.to(dtype)


def features(is_sparse, dtype):
    x = sp.random(N_NODES, N_FEATURES, 0.3, format="csr", rng=np.random.default_rng(0))
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
def test_values_and_gradients_are_those_of_autograd(adj_hat, n_views, is_sparse, changes):
    net, x = network(torch.float64, **changes), features(is_sparse, torch.float64)
    ours = views_and_gradients(net, adj_hat, x, n_views)
    asked_for = adj_hat.with_values(adj_hat.values().clone().requires_grad_())  # step by step
    assert_close(ours, views_and_gradients(net, asked_for, x, n_views))


def test_gradients_lie_in_memory_as_their_parameters_do(adj_hat):
    net, x = network(torch.float64), features(True, torch.float64)
    _, gradients = views_and_gradients(net, adj_hat, x, 2)
    for gradient, parameter in zip(gradients, net.parameters()):
        assert gradient.stride() == parameter.stride()


def test_nothing_that_comes_in_is_written_over(adj_hat):
    net, x = network(torch.float64), features(True, torch.float64)
    before = [t.detach().clone() for t in (*net.parameters(), x.values, adj_hat.values())]
    views_and_gradients(net, adj_hat, x, 2)
    assert_close([*net.parameters(), x.values, adj_hat.values()], before, atol=0, rtol=0)


def test_a_graph_whose_values_are_asked_for_gets_its_gradient(adj_hat):
    net, x = network(torch.float64), features(True, torch.float64)
    values = adj_hat.values().clone().requires_grad_()
    net.views(adj_hat.with_values(values), x, 2, torch.Generator().manual_seed(5)).sum().backward()
    assert values.grad.abs().sum() > 0
