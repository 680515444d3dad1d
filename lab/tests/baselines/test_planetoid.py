import dataclasses

import torch

from glnn_lab.baselines import BASELINES


def test_contexts_pull_linked_nodes_together(blocks, shortened):
    problem, truth, _ = blocks
    method = shortened(BASELINES["planetoid"], n_epochs=120, n_steps=6)
    blind = dataclasses.replace(problem, validation=problem.validation[:0])
    task = method.build(blind, seed=0)
    method.train(task, blind)
    close = (task.module.embedding @ task.module.context.T).detach()
    same = torch.from_numpy(truth[:, None] == truth)
    assert close[same].mean() > close[~same].mean() + 0.5


def test_labels_move_the_classifier_and_contexts_move_the_embedding(blocks):
    task = BASELINES["planetoid"].build(blocks[0], seed=0)
    task.losses(0)["cross_entropy"].backward()
    assert task.module.embedding.grad is None
    assert task.module.joined.weight.grad.abs().sum() > 0


def test_without_edges_and_with_one_class_there_is_still_a_prediction(make_blocks, shortened):
    problem, truth, _ = make_blocks(n_nodes=30, inside=0.0, across=0.0)
    single = dataclasses.replace(problem, train=problem.train[truth[problem.train] == 0])
    prediction = shortened(BASELINES["planetoid"], n_epochs=3).fit_predict(single, seed=0)
    assert prediction.probabilities.shape == (30, 3)
