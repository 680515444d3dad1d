import dataclasses

import numpy as np
import torch
from torch.nn import functional
from torch.testing import assert_close

from glnn_lab.baselines import BASELINES
from glnn_lab.baselines.longae import balanced_cross_entropy


def test_the_balanced_loss_weighs_ones_by_their_rarity():
    logits = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    target = torch.zeros(4, 5)
    target[0, :4] = 1.0
    zeta = 1 - 4 / 16
    p = torch.sigmoid(logits)
    entries = -zeta * target * p.log() - (1 - target) * (1 - p).log()
    assert_close(balanced_cross_entropy(logits, target), entries.mean())


def test_the_decoder_shares_the_encoders_weights(blocks):
    net = BASELINES["longae"].build(blocks[0], seed=0).module
    problem = blocks[0]
    width = problem.n_nodes + problem.features.shape[1]
    assert net.outer.shape == (width, 256)
    decoded = torch.ones(2, 256)
    expected = functional.linear(decoded, net.outer, net.biases["rebuilt"])
    assert_close(net.rebuild(decoded), expected)
    matrices = [p for p in net.parameters() if p.ndim == 2]
    assert len(matrices) == 4  # two shared, two of the classifier


def test_a_pass_shows_every_node_once(blocks, shortened):
    task = shortened(BASELINES["longae"], n_rows=30).build(blocks[0], seed=0)
    for _ in range(2):
        shown = torch.cat([task._batch() for _ in range(3)])
        assert sorted(shown.tolist()) == list(range(90))


def test_only_the_labelled_nodes_of_a_batch_are_classified(blocks, monkeypatch):
    problem = blocks[0]
    task = BASELINES["longae"].build(problem, seed=0)
    unlabelled = torch.from_numpy(np.setdiff1d(np.arange(90), problem.train))
    monkeypatch.setattr(task, "_batch", lambda: unlabelled)
    assert task.losses(0)["cross_entropy"].item() == 0


def test_the_last_epoch_counts(blocks, shortened):
    problem = blocks[0]
    method = shortened(BASELINES["longae"], n_epochs=40)
    without = dataclasses.replace(problem, validation=np.empty(0, dtype=int))
    both = [method.fit_predict(given, seed=0).probabilities for given in (problem, without)]
    assert np.array_equal(*both)
