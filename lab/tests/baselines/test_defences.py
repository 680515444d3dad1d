import dataclasses

import numpy as np
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph.prior import renormalized
from glnn_lab.baselines import BASELINES
from glnn_lab.baselines.defences import LowRankGraph, drop_dissimilar_edges


def test_edges_are_kept_by_the_sets_of_their_ends(blocks):
    problem, _, _ = blocks
    sets = [set(np.flatnonzero(row)) for row in problem.features.toarray()]
    kept = drop_dissimilar_edges(problem.graph, problem.features, 0.2).toarray() > 0
    for i, j in zip(*sp.triu(problem.graph).nonzero()):
        share = len(sets[i] & sets[j]) / len(sets[i] | sets[j])
        assert kept[i, j] == kept[j, i] == (share >= 0.2)


def test_it_is_a_gcn_on_those_edges(blocks, shortened):
    problem, _, _ = blocks
    settings = dataclasses.replace(BASELINES["gcn_jaccard"].settings, threshold=0.2)
    method = dataclasses.replace(BASELINES["gcn_jaccard"], settings=settings)
    graph = drop_dissimilar_edges(problem.graph, problem.features, 0.2)
    direct = dataclasses.replace(problem, graph=graph)
    found, expected = (
        shortened(m, n_epochs=5).fit_predict(p, seed=0).probabilities
        for m, p in ((method, problem), (BASELINES["gcn"], direct))
    )
    np.testing.assert_allclose(found, expected)


# GCN-SVD


def test_nearly_full_rank_is_the_renormalised_graph(blocks):
    graph = blocks[0].graph
    x = torch.eye(graph.shape[0])
    whole = torch.from_numpy(renormalized(graph).toarray()).float()
    assert_close(LowRankGraph(graph, graph.shape[0]) @ x, whole, atol=0.05, rtol=0.0)


def test_low_rank_is_that_of_the_singular_values(blocks):
    graph = blocks[0].graph.toarray().astype(float)
    left, values, right = np.linalg.svd(graph)
    low = (left[:, :3] * values[:3]) @ right[:3] + np.eye(len(graph))
    degree = low.sum(1)
    root = np.where(degree > 0, np.maximum(degree, 1e-12) ** -0.5, 0.0)
    x = torch.eye(len(graph))
    expected = torch.from_numpy(root[:, None] * low * root).float()
    assert_close(LowRankGraph(blocks[0].graph, 3) @ x, expected, atol=1e-5, rtol=1e-4)
