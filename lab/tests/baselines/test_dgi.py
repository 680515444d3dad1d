import dataclasses

import torch

from glnn_lab.baselines import BASELINES
from glnn_lab.baselines.dgi import KeepLowest


def test_the_embedding_never_sees_a_label(make_blocks, shortened):
    problem, truth, _ = make_blocks()
    other = dataclasses.replace(problem, labels=(truth + 1) % 3)
    method = shortened(BASELINES["dgi"], n_epochs=4)
    embeddings = []
    for given in (problem, other):
        task = method.build(given, seed=0)
        method.train(task, given)
        embeddings.append(task.embedding().detach())
    assert torch.equal(*embeddings)


def test_training_lowers_the_infomax_loss(blocks, shortened):
    method = shortened(BASELINES["dgi"], n_epochs=40)
    task = method.build(blocks[0], seed=0)
    before = task.losses(0)["infomax"].item()
    assert method.train(task, blocks[0]) == 40
    assert task.losses(0)["infomax"].item() < before


def test_patience_ends_the_training(blocks, shortened):
    method = shortened(BASELINES["dgi"], n_epochs=300, patience=1, learning_rate=0.5)
    assert method.train(method.build(blocks[0], seed=0), blocks[0]) < 300


def test_the_lowest_epoch_is_put_back_and_patience_counts_from_it():
    module = torch.nn.Linear(1, 1)
    keep, asked = KeepLowest(module, patience=2), []
    for epoch, loss in enumerate((3.0, 1.0, 2.0, 1.0)):
        module.weight.data.fill_(epoch)
        asked.append(keep.on_epoch_end("dgi", {"epoch": epoch, "loss": loss}))
    keep.on_stage_end("dgi")
    assert module.weight.item() == 1.0
    assert asked == [False, False, False, True]
