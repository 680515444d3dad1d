import numpy as np
import pytest
import torch
from torch.testing import assert_close

from glnn.engine.classifier import ClassifierTask, Labels
from glnn.engine.seeding import generator_for
from glnn.engine.settings import HeadSettings
from glnn.engine.task_gradient import task_factors
from glnn.graph import DenseAdjacency
from glnn.nn import Features
from glnn.nn.losses import cross_entropy

HEADS = [HeadSettings(), HeadSettings(head="propagation", n_steps=3)]


@pytest.mark.parametrize("head", HEADS, ids=lambda head: head.head)
def test_the_factors_are_the_gradient_at_every_pair_through_the_normalisation(blocks, head):
    features, graph, classes = blocks
    labels = Labels(np.arange(6), classes[:6], 60, 2)
    task = ClassifierTask(
        graph,
        Features.of(features),
        labels,
        head,
        init=generator_for(0),
        noise=generator_for(1),
    )
    left, right = task_factors(task)
    found = (left @ right.T + right @ left.T) / 2

    dense = torch.tensor(graph.toarray(), dtype=torch.float32, requires_grad=True)
    scale = dense.sum(1).rsqrt()
    logits = task.module(DenseAdjacency(scale[:, None] * dense * scale), task.features)
    loss = cross_entropy(logits[None], labels.nodes, labels.classes) * 6
    (gradient,) = torch.autograd.grad(loss, dense)
    expected = (gradient + gradient.T).double() / 2
    assert_close(torch.from_numpy(found), expected, atol=1e-5, rtol=1e-3)
    assert np.abs(found).max() > 1e-3


def test_the_networks_own_gradients_are_left_clean(blocks):
    features, graph, classes = blocks
    task = ClassifierTask(
        graph,
        Features.of(features),
        Labels(np.arange(6), classes[:6], 60, 2),
        HeadSettings(),
        init=generator_for(0),
        noise=generator_for(1),
    )
    task_factors(task)
    assert all(parameter.grad is None for parameter in task.module.parameters())


def test_a_node_without_links_has_no_part_in_the_gradient(blocks):
    features, graph, classes = blocks
    graph = graph.tolil()
    graph[0], graph[:, 0] = 0, 0
    task = ClassifierTask(
        graph.tocsr(),
        Features.of(features),
        Labels(np.arange(6), classes[:6], 60, 2),
        HeadSettings(),
        init=generator_for(0),
        noise=generator_for(1),
    )
    left, right = task_factors(task)
    assert (left[0] == 0).all()
    assert (right[0, :-1] == 0).all()
