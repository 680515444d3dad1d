import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn_lab.baselines.scikit import (
    LogisticRegressionSettings,
    choose_penalty,
    logistic_probabilities,
)
from glnn_lab.baselines.walks import (
    LabelContexts,
    RandomWalks,
    embedding_logits,
    skip_gram,
    walk_contexts,
    window_pairs,
)


def test_every_step_follows_an_edge(blocks):
    problem, _, _ = blocks
    walks = RandomWalks(problem.graph)
    paths = walks.draw(torch.arange(problem.n_nodes), 5, torch.Generator().manual_seed(0)).numpy()
    linked = problem.graph.toarray() > 0
    alone = ~linked.any(1)
    for here, there in zip(paths[:, :-1].ravel(), paths[:, 1:].ravel()):
        assert linked[here, there] or (alone[here] and here == there)


def test_steps_go_in_proportion_to_the_weights():
    graph = sp.csr_matrix(np.array([[0, 1, 3], [1, 0, 0], [3, 0, 0]], dtype=float))
    start = torch.zeros(20_000, dtype=torch.int64)
    ends = RandomWalks(graph).draw(start, 1, torch.Generator().manual_seed(0))[:, 1]
    assert abs((ends == 2).float().mean() - 0.75) < 0.02


def test_without_edges_walks_stay():
    walks = RandomWalks(sp.csr_matrix((3, 3)))
    assert walks.draw(torch.tensor([2]), 2, torch.Generator()).tolist() == [[2, 2, 2]]
    assert len(walks.connected) == 0


def test_pairs_are_at_most_a_window_apart():
    pairs = window_pairs(torch.arange(6)[None], 2)
    gaps = (pairs[:, 0] - pairs[:, 1]).abs()
    assert set(gaps.tolist()) == {1, 2}
    assert len(pairs) == 2 * (5 + 4)


def test_label_contexts_are_sorted_by_equal_labels():
    nodes, classes = torch.tensor([4, 7, 9]), torch.tensor([0, 1, 0])
    same, other = LabelContexts(nodes, classes).draw(50, torch.Generator().manual_seed(0))
    assert len(same) + len(other) == 50
    label = {4: 0, 7: 1, 9: 0}
    assert all(label[a] == label[b] for a, b in same.tolist())
    assert all(label[a] != label[b] for a, b in other.tolist())


def test_without_edges_there_are_no_contexts():
    walks = RandomWalks(sp.csr_matrix((4, 4)))
    near, far = walk_contexts(walks, (5, 3, 2), 1, torch.Generator())
    assert len(near) == len(far) == 0


def test_every_positive_has_its_negatives_from_the_same_centre(blocks):
    walks = RandomWalks(blocks[0].graph)
    near, far = walk_contexts(walks, (5, 3, 2), 2, torch.Generator().manual_seed(0))
    assert torch.equal(far[:, 0], near[:, 0].repeat(2))
    assert far[:, 1].max() < blocks[0].n_nodes


def test_the_skip_gram_loss_is_that_of_a_logistic_model():
    e, c = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    near, far = torch.tensor([[0, 1], [2, 3]]), torch.tensor([[1, 1]])
    p = torch.sigmoid(e @ c.T)
    expected = -(p[0, 1].log() + p[2, 3].log()) / 2 - (1 - p[1, 1]).log()
    torch.testing.assert_close(skip_gram(e, c, near, far), expected)


# Classes from an embedding


@pytest.mark.parametrize("penalty", [None, 10.0])
def test_it_is_the_logarithm_of_a_logistic_regression(blocks, penalty):
    problem, truth, _ = blocks
    z = problem.features.toarray().astype(float)
    settings = LogisticRegressionSettings(inverse_penalty=penalty or choose_penalty(z, problem))
    p = logistic_probabilities(z, problem.train, truth[problem.train], 3, settings)
    np.testing.assert_allclose(embedding_logits(z, problem, penalty).exp().numpy(), p, rtol=1e-6)
