import numpy as np
import torch
from torch.testing import assert_close

from glnn.graph import DenseAdjacency
from glnn.graph.prior import renormalized
from glnn_lab.baselines import BASELINES


def test_it_spreads_the_perceptrons_predictions_by_pagerank(blocks):
    problem, _, _ = blocks
    task = BASELINES["appnp"].build(problem, seed=0)
    net = task.module
    x = torch.from_numpy(problem.features.toarray() / np.asarray(problem.features.sum(1))).float()
    first = net.second(torch.relu(x @ net.first_map.weight + net.bias))
    adj_hat = DenseAdjacency(torch.from_numpy(renormalized(problem.graph).toarray()).float())
    z = first
    for _ in range(10):
        z = 0.9 * (adj_hat @ z) + 0.1 * first
    assert_close(task.scores(), z, atol=1e-5, rtol=1e-4)
