import numpy as np
import torch
from torch.testing import assert_close

from glnn.graph.prior import normalize_adjacency
from glnn_lab.baselines import BASELINES


def test_the_first_layer_is_the_chebyshev_sum(blocks):
    problem, _, _ = blocks
    net = BASELINES["chebnet"].build(problem, seed=0).module
    shifted = torch.from_numpy(-normalize_adjacency(problem.graph).toarray()).float()
    terms = [torch.eye(problem.n_nodes), shifted]
    terms.append(2 * shifted @ shifted - terms[0])
    x = torch.from_numpy(problem.features.toarray() / np.asarray(problem.features.sum(1))).float()
    blocks_of_weight = net.first_map.weight.split(16, dim=1)
    expected = sum(t @ x @ w for t, w in zip(terms, blocks_of_weight)) + net.first.bias
    mapped = x @ net.first_map.weight
    got = net.first(mapped, net.edges.index, net.edges.weight, None, 2.0)
    assert_close(got, expected, atol=1e-5, rtol=1e-4)


def test_the_degree_is_a_setting(blocks, shortened):
    net = shortened(BASELINES["chebnet"], degree=1).build(blocks[0], seed=0).module
    assert len(net.first.lins) == len(net.second.lins) == 2
