import numpy as np
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn_lab.baselines import BASELINES
from glnn_lab.baselines.monet import degree_coordinates
from glnn_lab.baselines.networks import Edges


def test_coordinates_are_inverse_roots_of_degrees_with_loops():
    graph = sp.csr_matrix(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]], dtype=float))
    index, degrees = degree_coordinates(Edges.of(graph))
    assert index[:, -3:].tolist() == [[0, 1, 2], [0, 1, 2]]
    assert_close(degrees[-3:], torch.tensor([3.0, 2.0, 2.0]).rsqrt()[:, None].expand(3, 2))


def test_the_first_layer_is_a_mean_over_neighbours_weighted_by_gaussians(blocks):
    problem, _, _ = blocks
    net = BASELINES["monet"].build(problem, seed=0).module
    mapped = torch.randn(problem.n_nodes, 48, generator=torch.Generator().manual_seed(0))
    u = torch.tanh(net.first_axes(net.degrees))
    got = net.first(mapped, net.index, u)
    node = 5
    into = net.index[1] == node
    inside = ((u[into][:, None] - net.first.mu).square() / net.first.sigma.square()).sum(-1)
    weighted = mapped[net.index[0, into]].view(-1, 3, 16) * torch.exp(-inside / 2)[..., None]
    assert_close(got[node], weighted.sum(1).mean(0) + net.first.bias, atol=1e-5, rtol=1e-4)
