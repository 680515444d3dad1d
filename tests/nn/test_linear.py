import numpy as np
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph.random_walk import RandomWalk, with_loops
from glnn.nn.features import Features
from glnn.nn.linear import LinearNet


def make(n_features, n_steps):
    generator = torch.Generator().manual_seed(0)
    return LinearNet(n_features, 2, dropout=0.0, n_steps=n_steps, generator=generator)


def test_on_two_joined_nodes_one_step_takes_three_quarters_and_one():
    walk = RandomWalk.of(with_loops(sp.csr_matrix(np.array([[0.0, 1.0], [1.0, 0.0]]))))
    x = torch.tensor([[4.0], [0.0]])
    assert_close(make(1, 1).spread(walk, x).flatten(), torch.tensor([3.0, 1.0]))


def test_logits_are_linear_in_the_features():
    walk = RandomWalk.of(with_loops(sp.csr_matrix(1.0 - np.eye(4))))
    net = make(3, 2)
    x, y = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0)).numpy()
    zero = net(walk, Features.of(np.zeros_like(x)))

    def of(z):
        return net(walk, Features.of(z)) - zero

    assert_close(of(2 * x + y), 2 * of(x) + of(y), atol=1e-5, rtol=1e-4)
