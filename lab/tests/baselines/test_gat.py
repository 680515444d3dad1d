import torch

from glnn_lab.baselines import BASELINES


def test_eight_heads_of_eight_units_then_one_head(blocks):
    net = BASELINES["gat"].build(blocks[0], seed=0).module
    assert net.first_map.weight.shape[1] == 64
    assert (net.first.heads, net.second.heads) == (8, 1)


def test_attention_dropout_is_drawn_from_the_task_alone(blocks):
    losses = []
    for state in (1, 2):
        torch.manual_seed(state)
        losses.append(BASELINES["gat"].build(blocks[0], seed=0).losses(0)["cross_entropy"])
    assert torch.equal(*losses)
