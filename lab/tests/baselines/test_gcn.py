import dataclasses

import numpy as np
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph.prior import renormalized
from glnn_lab.baselines import BASELINES
from glnn_lab.baselines.gcn import cosine_graph


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


# Nearest-neighbour graph


def test_links_go_to_the_highest_cosines():
    x = np.random.default_rng(0).random((20, 4))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -1)
    expected = np.zeros((20, 20))
    for i, row in enumerate(np.argsort(-cosine, axis=1)[:, :3]):
        expected[i, row] = 1
    graph = cosine_graph(x, 3).toarray()
    np.testing.assert_array_equal(graph, np.maximum(expected, expected.T))
    np.testing.assert_array_equal(graph, cosine_graph(sp.csr_matrix(x), 3).toarray())
    assert cosine_graph(np.ones((3, 2)), 10).toarray().sum() == 6
    assert cosine_graph(np.ones((1, 2)), 10).shape == (1, 1)
