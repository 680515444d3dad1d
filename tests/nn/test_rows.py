"""What every head on rows must do, whichever it is."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph.random_walk import RandomWalk
from glnn.nn.features import Features
from glnn.nn.hops import HopsNet
from glnn.nn.linear import LinearNet
from glnn.nn.rows import RowNet

N_NODES, N_FEATURES, N_CLASSES = 12, 5, 3


def linear(n_steps, dropout=0.0):
    generator = torch.Generator().manual_seed(0)
    return LinearNet(N_FEATURES, N_CLASSES, dropout=dropout, n_steps=n_steps, generator=generator)


def hops(n_steps, dropout=0.0):
    generator = torch.Generator().manual_seed(0)
    return HopsNet(
        N_FEATURES, N_CLASSES, n_hidden=7, dropout=dropout, n_steps=n_steps, generator=generator
    )


every_head = pytest.mark.parametrize("make", [linear, hops])


@pytest.fixture
def walk():
    rng = np.random.default_rng(1)
    upper = np.triu(rng.random((N_NODES, N_NODES)) < 0.3, 1)
    return RandomWalk.of(sp.csr_matrix((upper | upper.T).astype(np.float64)))


@pytest.fixture
def x():
    return torch.randn(N_NODES, N_FEATURES, generator=torch.Generator().manual_seed(2))


def trained(net: RowNet, walk, x):
    """Give the parameters any values, and the norm the statistics of all rows."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(generator=generator)
    rows = net.spread(walk, x).flatten(1)
    net.norm.measure(rows.mean(0), rows.std(0, correction=0))
    return net, net.norm.standardized(rows)


@every_head
@pytest.mark.parametrize("n_steps", [0, 1, 3])
def test_all_nodes_at_once_get_the_answers_of_their_rows(make, n_steps, walk, x):
    net, rows = trained(make(n_steps), walk, x)
    assert_close(net(walk, Features.of(x.numpy())), net.of_rows(rows), atol=1e-4, rtol=1e-4)


@every_head
def test_sparse_and_dense_features_get_the_same_answers(make, walk, x):
    x = torch.where(x > 0.8, x, 0.0)
    net, _ = trained(make(2), walk, x)
    sparse = Features.of(sp.csr_matrix(x.numpy()))
    assert_close(net(walk, sparse), net(walk, Features.of(x.numpy())), atol=1e-4, rtol=1e-4)


@every_head
def test_columns_on_another_scale_change_nothing(make, walk, x):
    _, rows = trained(make(2), walk, x)
    _, other = trained(make(2), walk, 1000 * x + 5)
    assert_close(other, rows, atol=1e-3, rtol=1e-3)


@every_head
def test_views_differ_by_dropout_alone(make, walk, x):
    net, rows = trained(make(2), walk, x)
    first, second = net.views(rows, 2, torch.Generator().manual_seed(0))
    assert_close(first, second)
    net, rows = trained(make(2, dropout=0.5), walk, x)
    first, second = net.views(rows, 2, torch.Generator().manual_seed(0))
    assert not torch.allclose(first, second)


@every_head
def test_a_perceptron_on_features_is_deaf_to_the_graph(make, walk, x):
    net, _ = trained(make(0), walk, x)
    alone = RandomWalk.of(sp.csr_matrix((N_NODES, N_NODES)))
    assert_close(net(walk, Features.of(x.numpy())), net(alone, Features.of(x.numpy())))
