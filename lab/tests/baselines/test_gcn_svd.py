import numpy as np
import torch
from torch.testing import assert_close

from glnn.graph.prior import renormalized
from glnn_lab.baselines.gcn_svd import LowRankGraph


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
