import dataclasses

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


# SGC


def test_it_is_linear_in_twice_smoothed_features(blocks):
    problem, _, _ = blocks
    task = BASELINES["sgc"].build(problem, seed=0)
    adj_hat = torch.from_numpy(renormalized(problem.graph).toarray()).float()
    x = torch.from_numpy(problem.features.toarray() / np.asarray(problem.features.sum(1))).float()
    expected = adj_hat @ adj_hat @ x @ task.module.first_map.weight + task.module.bias
    assert_close(task.scores(), expected, atol=1e-5, rtol=1e-4)


# MLP


def test_the_graph_is_not_looked_at(blocks, shortened):
    problem, _, _ = blocks
    method = shortened(BASELINES["mlp"], n_epochs=5)
    alone = dataclasses.replace(problem, graph=None)
    one, other = (method.fit_predict(p, seed=0).probabilities for p in (problem, alone))
    assert np.array_equal(one, other)
