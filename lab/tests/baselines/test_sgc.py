import numpy as np
import torch
from torch.testing import assert_close

from glnn.graph.prior import renormalized
from glnn_lab.baselines import BASELINES


def test_it_is_linear_in_twice_smoothed_features(blocks):
    problem, _, _ = blocks
    task = BASELINES["sgc"].build(problem, seed=0)
    adj_hat = torch.from_numpy(renormalized(problem.graph).toarray()).float()
    x = torch.from_numpy(problem.features.toarray() / np.asarray(problem.features.sum(1))).float()
    expected = adj_hat @ adj_hat @ x @ task.module.first_map.weight + task.module.bias
    assert_close(task.scores(), expected, atol=1e-5, rtol=1e-4)
