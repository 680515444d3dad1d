import numpy as np
import torch
from torch.testing import assert_close

from glnn.engine.classifier import Labels
from glnn.engine.literal import LiteralTask
from glnn.engine.seeding import generator_for
from glnn.engine.settings import GraphSettings, HeadSettings
from glnn.nn import Features
from glnn.objective import Weights


def literal_task(blocks):
    features, graph, classes = blocks
    settings = GraphSettings(weights=Weights.paper(0.01), reading="frobenius")
    objective = LiteralTask.objective(features, graph, settings, "cpu")
    task = LiteralTask(
        Features.of(features),
        Labels(np.arange(6), classes[:6], 60, 2),
        HeadSettings(),
        objective,
        init=generator_for(0),
        noise=generator_for(1),
    )
    return task, objective


def test_the_loss_is_cross_entropy_and_every_term_of_the_paper(blocks):
    task, objective = literal_task(blocks)
    losses = task.losses(0)
    terms = objective.terms(task.adjacency())
    assert set(losses) == {"cross_entropy", *terms}
    for name, value in terms.items():
        assert_close(losses[name], value)


def test_the_graph_starts_uniform_between_zero_and_one_and_symmetric(blocks):
    matrix = literal_task(blocks)[0].adjacency().to_dense()
    assert matrix.min() >= 0 and matrix.max() <= 1
    assert_close(matrix, matrix.T)
    assert_close(matrix.mean(), torch.tensor(0.5), atol=0.03, rtol=0)


def test_the_loss_reaches_every_entry_of_the_graph_and_every_weight(blocks):
    task = literal_task(blocks)[0]
    sum(task.losses(0).values()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in task.module.parameters())
    assert (task.module["graph"].matrix.grad != 0).all()
