import dataclasses
import math

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.distributed import Partition
from glnn.engine import tasks
from glnn.engine.inputs import make_generator
from glnn.engine.settings import GraphSettings, HeadSettings
from glnn.engine.tasks import (
    ClassifierTask,
    Labels,
    LiteralTask,
    factor_task_gradient,
)
from glnn.engine.trainer import Trainer
from glnn.graph import DenseAdjacency
from glnn.graph.pairs import SparseAdjacency
from glnn.nn import Features
from glnn.nn.losses import (
    cross_entropy,
    smoothness_of_predictions,
    squared_distance_loss,
    view_targets,
)
from glnn.objective import Weights

# Classifier

BLOCK, N_CLASSES = 8, 3
N_NODES = BLOCK * N_CLASSES + 1  # the last node is isolated
TRUTH = np.arange(N_NODES) // BLOCK % N_CLASSES
HEADS = {
    "gcn": HeadSettings(head="gcn", smoothness_weight=2.0, ramp_epochs=10),
    "propagation": HeadSettings(
        head="propagation",
        drop_node=0.5,
        n_views=2,
        consistency_weight=1.0,
        smoothness_weight=0.5,
        ramp_epochs=10,
    ),
}
every_head = pytest.mark.parametrize("settings", HEADS.values(), ids=HEADS)


@pytest.fixture
def adjacency():
    """Three rings with chords, and one node alone."""
    matrix = np.zeros((N_NODES, N_NODES))
    for i in range(N_NODES - 1):
        block, place = divmod(i, BLOCK)
        for step in (1, 3):
            j = block * BLOCK + (place + step) % BLOCK
            matrix[i, j] = matrix[j, i] = step
    return sp.csr_matrix(matrix)


@pytest.fixture
def features():
    x = np.random.default_rng(0).normal(size=(N_NODES, 6)) + 2 * np.eye(6)[TRUTH]
    return Features.of(x)


@pytest.fixture
def labels():
    nodes = np.arange(0, N_NODES - 1, BLOCK)
    return Labels(nodes, TRUTH[nodes], N_NODES, N_CLASSES)


@pytest.fixture
def make(adjacency, features, labels):
    def make(settings, seed=0, graph=adjacency, **more):
        noise = {"init": make_generator(seed, 0), "noise": make_generator(seed, 1)}
        return ClassifierTask(graph, features, labels, settings, **noise, **more)

    return make


@every_head
def test_the_scores_are_the_network_on_the_normalised_graph(make, adjacency, features, settings):
    task = make(settings)
    degree = adjacency.toarray().sum(1)
    scale = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    a = torch.from_numpy(scale[:, None] * adjacency.toarray() * scale).float()
    first, second = (p for p in task.module.parameters() if p.ndim == 2)
    if settings.head == "gcn":
        expected = a @ torch.relu(a @ features.values @ first) @ second
    else:
        spread = (torch.eye(N_NODES) + a + a @ a) / 3
        expected = torch.relu(spread @ features.values @ first) @ second
    assert_close(task.scores(), expected)


@every_head
def test_the_losses_are_the_named_terms_with_their_weights_and_ramp(
    make, adjacency, labels, settings
):
    task, twin = make(settings), make(settings)
    ramps = [task.ramp(epoch) for epoch in (0, 4, 10, 500)]
    assert ramps == [0, 0.4, 1, 1]
    ramp, found = 0.4, task.losses(4)
    logits = twin.module.views(twin.adj_hat, twin.features, settings.n_views, twin._noise)
    views = logits.softmax(-1)
    degree = torch.from_numpy(adjacency.toarray().sum(1)).float()
    inverse = torch.where(degree > 0, 1 / degree, torch.zeros(()))
    smooth = smoothness_of_predictions(
        SparseAdjacency.from_scipy(adjacency, dtype=torch.float32),
        inverse,
        views,
        labels.one_hot,
        settings.smoothness_temperature,
        task.gate,
    )
    expected = {
        "cross_entropy": cross_entropy(logits, labels.nodes, labels.classes),
        "smoothness": settings.smoothness_weight * ramp * smooth,
    }
    if settings.consistency_weight:
        targets = view_targets(views, settings.consistency_temperature, task.gate)
        agreement = squared_distance_loss(views, *targets)
        expected["consistency"] = settings.consistency_weight * ramp * agreement
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert_close(found[name], value)


@every_head
def test_training_finds_the_blocks_from_one_label_each_by_the_seed_alone(make, settings):
    def train(seed):
        task = make(settings, seed)
        Trainer(n_epochs=60, learning_rate=0.02).fit(task)
        return task.scores().detach()

    once = train(0)
    assert (once.argmax(1).numpy() == TRUTH)[:-1].all()
    torch.manual_seed(123)
    assert torch.equal(once, train(0))
    assert not torch.equal(once, train(1))


@pytest.mark.parametrize("size", [2, 3])
@every_head
def test_the_shares_of_several_processes_sum_up_to_the_losses_and_gradients_of_one(
    make, adjacency, features, labels, settings, together, size
):
    plain = dataclasses.replace(settings, dropout=0.0, drop_node=0.0)  # noise is each one's own
    task = make(plain)
    losses = task.losses(20)
    sum(losses.values()).backward()

    def work(peers):
        part = Partition(N_NODES, peers)
        own = ClassifierTask(
            adjacency[part.rows],
            Features.of(features.values.numpy()[part.rows]),
            labels,
            plain,
            init=make_generator(0, 0),
            noise=make_generator(0, 1, peers.rank),
            partition=part,
        )
        shares = own.losses(20)
        sum(shares.values()).backward()
        return own.scores().detach(), shares, [p.grad for p in own.module.parameters()]

    scores, shares, gradients = zip(*together(size, work))
    assert_close(torch.cat(scores), task.scores().detach())
    for name, loss in losses.items():
        assert_close(sum(share[name] for share in shares), loss)
    for parts, parameter in zip(zip(*gradients), task.module.parameters()):
        assert_close(sum(parts), parameter.grad, rtol=1e-4, atol=1e-7)


def test_labels_of_a_process_are_those_of_its_rows(labels, together):
    def work(peers):
        part = Partition(N_NODES, peers)
        own = labels.local(part)
        assert len(own) == len(labels)  # means are over all of them
        return own.nodes + part.start, own.classes, own.one_hot

    nodes, classes, one_hot = (torch.cat(parts) for parts in zip(*together(3, work)))
    assert torch.equal(nodes, labels.nodes)
    assert torch.equal(classes, labels.classes)
    assert torch.equal(one_hot, labels.one_hot)


def test_validation_is_cross_entropy_and_the_share_of_right_answers():
    labels = Labels([1, 2], [1, 1], 3, 2)
    picked = torch.tensor([[0.0, math.log(3)], [math.log(3), 0.0]])
    each = -np.log([3 / 4, 1 / 4])
    assert_close(labels.measure(picked), (torch.tensor(each.mean()).float(), torch.tensor(0.5)))
    weighted = labels.with_weights(np.array([1.0, 3.0]))
    assert_close(weighted.measure(picked)[0], torch.tensor((each * [0.5, 1.5]).mean()).float())


def test_weights_of_labels_have_mean_one_and_their_class_its_mean():
    plain = Labels(np.arange(4), np.array([0, 0, 1, 1]), 5, 3)
    labels = plain.with_weights(np.array([2.0, 4.0, 6.0, 12.0]))
    assert labels.weights.mean() == 1
    assert_close(labels.class_weights, torch.tensor([0.5, 1.5, 0.0]))
    assert plain.weights is None
    assert plain.with_weights(np.zeros(4)) is plain


# The paper's method as printed


def test_the_loss_is_cross_entropy_and_every_term_of_the_paper_down_to_every_entry(blocks):
    features, graph, classes = blocks
    settings = GraphSettings(weights=Weights(smoothness=0.01), reading="frobenius")
    objective = LiteralTask.build_objective(features, graph, settings, "cpu")
    labels = Labels(np.arange(6), classes[:6], 60, 2)
    noise = {"init": make_generator(0), "noise": make_generator(1)}
    task = LiteralTask(Features.of(features), labels, HeadSettings(), objective, **noise)
    losses, terms = task.losses(0), objective.terms(task.adjacency())
    assert set(losses) == {"cross_entropy", *terms}
    for name, value in terms.items():
        assert_close(losses[name], value)
    sum(losses.values()).backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in task.module.parameters())
    assert (task.module["graph"].matrix.grad != 0).all()


# Gradient of the task


@pytest.mark.parametrize("settings", [HeadSettings(), HeadSettings(head="propagation", n_steps=3)])
def test_the_factors_are_the_gradient_at_every_pair_through_the_normalisation(
    make, adjacency, labels, settings
):
    task = make(settings)
    left, right = factor_task_gradient(task)
    assert all(parameter.grad is None for parameter in task.module.parameters())
    found = (left @ right.T + right @ left.T) / 2

    dense = torch.tensor(adjacency.toarray(), dtype=torch.float32, requires_grad=True)
    scale = torch.cat([dense.sum(1)[:-1].rsqrt(), torch.zeros(1)])  # the last node is isolated
    logits = task.module(DenseAdjacency(scale[:, None] * dense * scale), task.features)
    loss = cross_entropy(logits[None], labels.nodes, labels.classes) * len(labels)
    (gradient,) = torch.autograd.grad(loss, dense)
    expected = (gradient + gradient.T).double() / 2
    assert_close(torch.from_numpy(found)[:-1, :-1], expected[:-1, :-1], atol=1e-5, rtol=1e-3)
    assert np.abs(found).max() > 1e-3
    assert (left[-1] == 0).all()
    assert (right[-1, :-1] == 0).all()


# Propagation to labelled and validation nodes alone


@pytest.mark.parametrize("n_views", [1, 2])
def test_where_labels_alone_train_other_nodes_are_left_out_and_change_nothing(
    make, monkeypatch, n_views
):
    settings = HeadSettings(head="propagation", dropout=0.0, n_steps=7, n_views=n_views)
    validation = Labels([1, 2, 20], TRUTH[[1, 2, 20]], N_NODES, N_CLASSES)

    def measure(max_numbers):
        monkeypatch.setattr(tasks, "_MAX_ROW_NUMBERS", max_numbers)
        task = make(settings, validation=validation)
        assert (task._labelled_rows is None) == (max_numbers == 0)
        loss = task.losses(0)["cross_entropy"]
        loss.backward()
        gradients = [parameter.grad for parameter in task.module.parameters()]
        return [loss, *gradients, *task.validate(validation), task.scores()]

    for few, all_nodes in zip(measure(2**20), measure(0)):
        assert_close(few, all_nodes, atol=1e-6, rtol=1e-4)
