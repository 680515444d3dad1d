import torch
from torch.nn import functional
from torch.testing import assert_close

from glnn.baselines import BASELINES
from glnn.baselines.longae import balanced_cross_entropy


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
    assert_close(net.rebuilt(decoded), expected)
    matrices = [p for p in net.parameters() if p.ndim == 2]
    assert len(matrices) == 4  # two shared, two of the classifier
