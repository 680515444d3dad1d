"""Heads on rows: what all have in common, the column norm, and each head."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph.operators import RandomWalk, add_loops
from glnn.nn.features import Features, NetworkSettings, keep_mask
from glnn.nn.row_heads import ColumnNorm, HopsNet, LinearNet, RowNet

# All row heads

N_NODES, N_FEATURES, N_CLASSES = 12, 5, 3


def linear(n_steps, dropout=0.0):
    generator = torch.Generator().manual_seed(0)
    settings = NetworkSettings(dropout=dropout, n_steps=n_steps)
    return LinearNet(N_FEATURES, N_CLASSES, settings, generator)


def hops(n_steps, dropout=0.0):
    generator = torch.Generator().manual_seed(0)
    settings = NetworkSettings(n_hidden=7, dropout=dropout, n_steps=n_steps)
    return HopsNet(N_FEATURES, N_CLASSES, settings, generator)


every_head = pytest.mark.parametrize("make", [linear, hops])


@pytest.fixture
def walk():
    rng = np.random.default_rng(1)
    upper = np.triu(rng.random((N_NODES, N_NODES)) < 0.3, 1)
    return RandomWalk(sp.csr_matrix((upper | upper.T).astype(np.float64)))


@pytest.fixture
def x():
    return torch.randn(N_NODES, N_FEATURES, generator=torch.Generator().manual_seed(2))


def trained(net: RowNet, walk, x):
    """Give the parameters any values, and the norm the statistics of all rows."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.normal_(generator=generator)
    rows = net.propagate(walk, x).flatten(1)
    net.norm.set_statistics(rows.mean(0), rows.std(0, correction=0))
    return net, net.norm.standardize(rows)


@every_head
@pytest.mark.parametrize("n_steps", [0, 1, 3])
def test_all_nodes_at_once_get_the_answers_of_their_rows(make, n_steps, walk, x):
    net, rows = trained(make(n_steps), walk, x)
    assert_close(net(walk, Features.of(x.numpy())), net.row_logits(rows), atol=1e-4, rtol=1e-4)


@every_head
def test_sparse_and_dense_features_get_the_same_answers(make, walk, x):
    x = torch.where(x > 0.8, x, 0.0)
    net, _ = trained(make(2), walk, x)
    sparse = Features.of(sp.csr_matrix(x.numpy()))
    assert_close(net(walk, sparse), net(walk, Features.of(x.numpy())), atol=1e-4, rtol=1e-4)


def views(net, rows, generator):
    if isinstance(net, LinearNet):
        return net.trace_views(rows, 2, generator)[0]
    return net.views(rows, 2, generator)


@every_head
def test_views_differ_by_dropout_alone(make, walk, x):
    net, rows = trained(make(2), walk, x)
    first, second = views(net, rows, torch.Generator().manual_seed(0))
    assert_close(first, second)
    net, rows = trained(make(2, dropout=0.5), walk, x)
    first, second = views(net, rows, torch.Generator().manual_seed(0))
    assert not torch.allclose(first, second)


# ColumnNorm


def test_a_batch_of_all_rows_is_normalised_as_after_training_and_a_constant_column_is_zero():
    norm, rows = ColumnNorm(3), torch.randn(400, 3, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        norm.scale.copy_(torch.tensor([1.0, -2.0, 0.5]))
        norm.shift.copy_(torch.tensor([0.0, 1.0, 3.0]))
    deviation, mean = torch.std_mean(rows, 0, correction=0)
    norm.set_statistics(mean, deviation * torch.tensor([1.0, 1.0, 0.0]))
    standardized = norm.standardize(rows)
    assert not standardized[:, 2].any()
    settled = norm.scale * standardized + norm.shift
    assert_close(norm(standardized), settled, atol=1e-4, rtol=1e-4)
    scale, shift = norm.fold_affine()
    assert_close(scale * rows + shift, settled)


# LinearNet


def test_on_two_joined_nodes_one_step_takes_three_quarters_and_one():
    walk = RandomWalk(add_loops(sp.csr_matrix(np.array([[0.0, 1.0], [1.0, 0.0]]))))
    x = torch.tensor([[4.0], [0.0]])
    assert_close(linear(1).propagate(walk, x).flatten(), torch.tensor([3.0, 1.0]))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_gradient_of_the_views_is_that_of_autograd(dropout):
    net = linear(1, dropout)
    net.norm.scale.data.uniform_(0.5, 1.5)
    batch = torch.randn(6, N_FEATURES, generator=torch.Generator().manual_seed(1))
    target = torch.randn(2, 6, N_CLASSES, generator=torch.Generator().manual_seed(2))
    found, trace = net.trace_views(batch, 2, torch.Generator().manual_seed(3))
    mask = torch.ones(2, 6, N_FEATURES)
    if dropout:
        mask = keep_mask(mask, dropout, torch.Generator().manual_seed(3))
    wanted = (net.norm(batch) * mask) @ net.weight.T + net.bias
    assert_close(found, wanted)
    net.set_gradients(target, trace)
    parameters = list(net.parameters())
    for one, other in zip(parameters, torch.autograd.grad((wanted * target).sum(), parameters)):
        assert_close(one.grad, other)


# HopsNet


def test_hops_stay_apart():
    path = sp.csr_matrix(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    x = torch.tensor([[4.0], [0.0], [0.0]])
    seen = hops(2).propagate(RandomWalk(path), x).flatten(1)
    assert_close(seen, torch.tensor([[4.0, 0.0, 2.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]))


def test_a_batch_moves_the_statistics_of_hidden_signals():
    net = hops(0)
    rows = torch.randn(30, N_FEATURES, generator=torch.Generator().manual_seed(1))
    hidden = (net.norm(rows) @ net.first).detach()
    net.views(rows, 1, torch.Generator())
    assert_close(net.hidden.running_mean, hidden.mean(0) / 10)
    assert_close(net.hidden.running_var, 0.9 + hidden.var(0) / 10)
