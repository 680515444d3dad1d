import numpy as np
import torch
from torch.testing import assert_close

from glnn.graph.prior import renormalized
from glnn_lab.baselines import BASELINES


def test_the_network_is_two_products_with_the_renormalised_graph(blocks):
    problem, _, _ = blocks
    task = BASELINES["gcn"].build(problem, seed=0)
    net = task.module
    adj_hat = torch.from_numpy(renormalized(problem.graph).toarray()).float()
    sums = np.asarray(problem.features.sum(1))
    x = torch.from_numpy(problem.features.toarray() / sums).float()
    hidden = torch.relu(adj_hat @ x @ net.first_map.weight + net.first.bias)
    logits = adj_hat @ hidden @ net.second.lin.weight.T + net.second.bias
    assert_close(task.scores(), logits, atol=1e-5, rtol=1e-4)
