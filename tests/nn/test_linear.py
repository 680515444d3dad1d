import numpy as np
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph.random_walk import RandomWalk, with_loops
from glnn.nn.features import Features
from glnn.nn.linear import LinearNet


def make(n_features, n_steps, **more):
    generator = torch.Generator().manual_seed(0)
    return LinearNet(n_features, 2, dropout=0.0, n_steps=n_steps, generator=generator, **more)


def test_on_two_joined_nodes_one_step_takes_three_quarters_and_one():
    walk = RandomWalk.of(with_loops(sp.csr_matrix(np.array([[0.0, 1.0], [1.0, 0.0]]))))
    x = torch.tensor([[4.0], [0.0]])
    assert_close(make(1, 1).spread(walk, x).flatten(), torch.tensor([3.0, 1.0]))


def test_the_last_power_alone_is_the_walk_taken_so_often():
    graph = with_loops(sp.csr_matrix(np.diag([1.0, 2.0, 3.0], 1) + np.diag([1.0, 2.0, 3.0], -1)))
    walk, net = RandomWalk.of(graph), make(2, 3, powers="last")
    x = torch.randn(4, 2, generator=torch.Generator().manual_seed(0))
    assert_close(net.spread(walk, x)[:, 0], walk @ (walk @ (walk @ x)))
    net.norm.measure(torch.tensor([0.5, -1.0]), torch.tensor([2.0, 3.0]))
    rows = net.norm.standardized(net.spread(walk, x).flatten(1))
    assert_close(net(walk, Features.of(x.numpy())), net.of_rows(rows))


def test_logits_are_linear_in_the_features():
    walk = RandomWalk.of(with_loops(sp.csr_matrix(1.0 - np.eye(4))))
    net = make(3, 2)
    x, y = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)).numpy()
    zero = net(walk, Features.of(np.zeros_like(x)))

    def of(z):
        return net(walk, Features.of(z)) - zero

    assert_close(of(2 * x + y), 2 * of(x) + of(y), atol=1e-5, rtol=1e-4)
