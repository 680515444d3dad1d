import numpy as np
import pytest
import torch

from glnn.engine.classifier import ClassifierTask, Labels
from glnn.engine.presets import resolve_settings
from glnn.engine.seeding import generator_for
from glnn.graph.prior import prior_graph
from glnn.nn.features import Features
from glnn.parallel.features import FeatureRows
from glnn.parallel.labels import LabelRows
from glnn.parallel.task import RowsTask
from glnn.peers import Partition


@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("preset", ["paper", "default"])
def test_losses_scores_and_gradients_are_those_of_one_process(words, together, preset, size):
    features, graph, classes = words
    adjacency, head = prior_graph(graph, "renormalized"), resolve_settings(preset).head
    labels = Labels(np.arange(0, 20), classes[:20], 150, 3)  # all in the first block

    def generators():
        return {"init": generator_for(0, 1, 0), "noise": generator_for(0, 1, 1)}

    one = ClassifierTask(adjacency, Features.of(features), labels, head, **generators())
    terms = one.losses(50)
    sum(terms.values()).backward()
    scores = one.scores().detach()

    def work(peers):
        part = Partition(150, peers)
        own = FeatureRows.of_rows(features[part.rows], part, "cpu")
        rows = LabelRows(labels, part)
        task = RowsTask(part, adjacency[part.rows], own, rows, head, **generators())
        found = task.losses(50)
        sum(found.values()).backward()
        torch.testing.assert_close(found, terms, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(task.scores().detach(), scores[part.rows])
        for name, parameter in task.module.named_parameters():
            expected = dict(one.module.named_parameters())[name].grad
            assert torch.equal(parameter.grad, expected), name

    together(size, work)


def test_an_epoch_in_which_processes_meet_is_never_recorded():
    assert ClassifierTask.is_recordable
    assert not RowsTask.is_recordable
