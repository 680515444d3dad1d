import dataclasses

import numpy as np
import torch

from glnn_lab.baselines import BASELINES


def test_features_and_labels_do_not_move_the_embedding(blocks, shortened):
    problem, truth, _ = blocks
    other = dataclasses.replace(
        problem, features=np.ones((problem.n_nodes, 2)), labels=(truth + 1) % 3
    )
    method = shortened(BASELINES["deepwalk"], n_epochs=3)
    embeddings = []
    for given in (problem, other):
        task = method.build(given, seed=0)
        method.train(task, given)
        embeddings.append(task.module["node"].detach())
    assert torch.equal(*embeddings)


def test_linked_nodes_come_closer_than_others(make_blocks, shortened):
    problem, truth, _ = make_blocks(across=0.0)
    method = shortened(BASELINES["deepwalk"], n_epochs=150)
    task = method.build(problem, seed=0)
    method.train(task, problem)
    z = torch.nn.functional.normalize(task.module["node"].detach())
    near, same = (z @ z.T).numpy(), truth[:, None] == truth
    assert near[same].mean() > near[~same].mean() + 0.3
