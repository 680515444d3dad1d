import numpy as np
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph.random_walk import RandomWalk
from glnn.nn.hops import HopsNet


def test_hops_stay_apart():
    path = sp.csr_matrix(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    net = HopsNet(
        1, 2, n_hidden=4, dropout=0.0, n_steps=2, generator=torch.Generator().manual_seed(0)
    )
    seen = net.spread(RandomWalk.of(path), torch.tensor([[4.0], [0.0], [0.0]])).flatten(1)
    assert_close(seen, torch.tensor([[4.0, 0.0, 2.0], [0.0, 2.0, 0.0], [0.0, 0.0, 2.0]]))


def test_a_batch_moves_the_statistics_of_hidden_signals():
    net = HopsNet(
        2, 2, n_hidden=4, dropout=0.0, n_steps=0, generator=torch.Generator().manual_seed(0)
    )
    rows = torch.randn(30, 2, generator=torch.Generator().manual_seed(1))
    hidden = net.norm(rows) @ net.first
    for _ in range(200):
        net.views(rows, 1, torch.Generator())
    assert_close(net.hidden.running_mean, hidden.mean(0).detach(), atol=1e-5, rtol=1e-4)
    assert_close(net.hidden.running_var, hidden.var(0).detach(), atol=1e-5, rtol=1e-4)


def test_a_batch_moves_the_statistics_by_a_tenth():
    net = HopsNet(
        2, 2, n_hidden=4, dropout=0.0, n_steps=0, generator=torch.Generator().manual_seed(0)
    )
    rows = torch.randn(30, 2, generator=torch.Generator().manual_seed(1))
    net.views(rows, 1, torch.Generator())
    hidden = (net.norm(rows) @ net.first).detach()
    assert_close(net.hidden.running_mean, hidden.mean(0) / 10)
