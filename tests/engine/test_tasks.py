import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch import nn
from torch.testing import assert_close

from glnn.distributed import Partition
from glnn.engine import tasks
from glnn.engine.inputs import make_generator
from glnn.engine.settings import GraphSettings, HeadSettings
from glnn.engine.tasks import (
    ClassifierTask,
    Labels,
    LiteralTask,
    TrainingTask,
    Validation,
    build_head,
    factor_task_gradient,
)
from glnn.engine.trainer import Trainer
from glnn.graph import DenseAdjacency
from glnn.graph.pairs import SparseAdjacency
from glnn.nn import GCN, Features, PropagationNet
from glnn.nn.losses import consistency, cross_entropy, smoothness_of_predictions
from glnn.objective import Weights

# Interface


class Line(TrainingTask):
    def __init__(self):
        self.module = nn.Linear(2, 1)

    def losses(self, epoch):
        return {"square": self.module.weight.square().sum()}

    def scores(self):
        return torch.zeros(1, 2)


def test_a_task_must_say_what_it_minimises_and_what_it_predicts():
    with pytest.raises(TypeError, match=r"abstract methods '?losses'?, '?scores'?"):
        TrainingTask()


def test_by_default_every_parameter_is_trained_alike():
    task = Line()
    (group,) = task.parameter_groups()
    assert group.keys() == {"params"}
    assert [id(p) for p in group["params"]] == [id(p) for p in task.module.parameters()]


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
    def make(settings, seed=0):
        return ClassifierTask(
            adjacency,
            features,
            labels,
            settings,
            init=make_generator(seed, 0),
            noise=make_generator(seed, 1),
        )

    return make


def test_labels_are_one_hot_on_their_nodes_and_zero_elsewhere(labels):
    assert torch.equal(labels.one_hot.sum(1).nonzero()[:, 0], labels.nodes)
    assert torch.equal(labels.one_hot[labels.nodes].argmax(1), labels.classes)
    assert labels.one_hot.sum() == len(labels.nodes)


def test_labels_on_another_device_are_the_same_labels(labels):
    other = labels.to("cpu")
    assert other.n_classes == labels.n_classes
    for name in ("nodes", "classes", "one_hot"):
        assert torch.equal(getattr(other, name), getattr(labels, name))


@pytest.mark.parametrize(("name", "kind"), [("gcn", GCN), ("propagation", PropagationNet)])
def test_the_head_is_the_named_network(name, kind, rng):
    assert isinstance(build_head(HeadSettings(head=name), 4, 3, rng), kind)


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
    epoch, ramp = 4, 0.4
    task, twin = make(settings), make(settings)
    found = task.losses(epoch)
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
        agreement = consistency(views, settings.consistency_temperature, task.gate)
        expected["consistency"] = settings.consistency_weight * ramp * agreement
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert_close(found[name], value)


@every_head
def test_the_terms_on_predictions_start_at_zero_and_stay_at_their_weight(make, settings):
    task, late, later = (make(dataclasses.replace(settings, dropout=0.0, gate=0.0)) for _ in "123")
    assert task.losses(0)["smoothness"] == 0
    assert torch.equal(late.losses(10)["smoothness"], later.losses(500)["smoothness"])


def test_without_weights_there_is_nothing_but_cross_entropy(make):
    assert make(HeadSettings()).losses(50).keys() == {"cross_entropy"}


@every_head
def test_every_parameter_is_trained_once_and_the_first_layer_alone_decays(make, settings):
    task = make(settings)
    first, rest = task.parameter_groups()
    grouped = [*first["params"], *rest["params"]]
    assert sorted(map(id, grouped)) == sorted(map(id, task.module.parameters()))
    assert first["weight_decay"] == settings.weight_decay
    assert "weight_decay" not in rest
    widths = {p.shape[0] for p in first["params"] if p.ndim == 2}
    assert widths == {6}


@every_head
def test_training_finds_the_blocks_from_one_label_each(make, settings):
    task = make(settings)
    history = Trainer(n_epochs=60, learning_rate=0.02).fit(task)
    predicted = task.scores().argmax(1).numpy()
    assert (predicted == TRUTH)[:-1].all()
    assert history[-1]["cross_entropy"] < history[0]["cross_entropy"]


@every_head
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(make, settings):
    def trained(seed):
        task = make(settings, seed)
        Trainer(n_epochs=15, learning_rate=0.02).fit(task)
        return task.scores()

    once = trained(0)
    torch.manual_seed(123)
    assert torch.equal(once, trained(0))
    assert not torch.equal(once, trained(1))


@every_head
def test_a_graph_without_edges_still_trains_to_finite_scores(features, labels, settings):
    task = ClassifierTask(
        sp.csr_matrix((N_NODES, N_NODES)),
        features,
        labels,
        settings,
        init=make_generator(0, 0),
        noise=make_generator(0, 1),
    )
    Trainer(n_epochs=3, learning_rate=0.02).fit(task)
    assert torch.isfinite(task.scores()).all()


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


def test_the_terms_of_a_share_are_those_of_an_epoch_with_it(make):
    for settings in HEADS.values():
        of_epoch, of_share = make(settings).losses(5), make(settings).terms(torch.tensor(0.5))
        assert_close(of_epoch, of_share)


def test_weights_of_labels_have_mean_one_and_their_class_its_mean():
    plain = Labels(np.arange(4), np.array([0, 0, 1, 1]), 5, 3)
    labels = plain.with_weights(np.array([2.0, 4.0, 6.0, 12.0]))
    assert labels.weights.mean() == 1
    assert_close(labels.class_weights, torch.tensor([0.5, 1.5, 0.0]))
    assert labels.to("cpu").class_weights is not None
    assert plain.weights is None


# The paper's method as printed


def literal_task(blocks):
    features, graph, classes = blocks
    settings = GraphSettings(weights=Weights.paper(0.01), reading="frobenius")
    objective = LiteralTask.build_objective(features, graph, settings, "cpu")
    task = LiteralTask(
        Features.of(features),
        Labels(np.arange(6), classes[:6], 60, 2),
        HeadSettings(),
        objective,
        init=make_generator(0),
        noise=make_generator(1),
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


# Gradient of the task

TASK_GRADIENT_HEADS = [HeadSettings(), HeadSettings(head="propagation", n_steps=3)]


@pytest.mark.parametrize("head", TASK_GRADIENT_HEADS, ids=lambda head: head.head)
def test_the_factors_are_the_gradient_at_every_pair_through_the_normalisation(blocks, head):
    features, graph, classes = blocks
    labels = Labels(np.arange(6), classes[:6], 60, 2)
    task = ClassifierTask(
        graph,
        Features.of(features),
        labels,
        head,
        init=make_generator(0),
        noise=make_generator(1),
    )
    left, right = factor_task_gradient(task)
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
        init=make_generator(0),
        noise=make_generator(1),
    )
    factor_task_gradient(task)
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
        init=make_generator(0),
        noise=make_generator(1),
    )
    left, right = factor_task_gradient(task)
    assert (left[0] == 0).all()
    assert (right[0, :-1] == 0).all()


# Propagation to labelled and validation nodes alone


@pytest.mark.parametrize("n_views", [1, 2])
def test_where_labels_alone_train_other_nodes_are_left_out_and_change_nothing(
    adjacency, features, labels, monkeypatch, n_views
):
    settings = HeadSettings(head="propagation", dropout=0.0, n_steps=7, n_views=n_views)
    validation = Validation(torch.tensor([1, 2, 20]), torch.from_numpy(TRUTH[[1, 2, 20]]))

    def measure(max_numbers):
        monkeypatch.setattr(tasks, "_MAX_ROW_NUMBERS", max_numbers)
        generators = {"init": make_generator(0, 0), "noise": make_generator(0, 1)}
        task = ClassifierTask(
            adjacency, features, labels, settings, **generators, validation=validation
        )
        assert (task._rows is None) == (max_numbers == 0)
        loss = task.losses(0)["cross_entropy"]
        loss.backward()
        gradients = [parameter.grad for parameter in task.module.parameters()]
        return [loss, *gradients, *task.validate(validation), task.scores()]

    for few, all_nodes in zip(measure(2**20), measure(0)):
        assert_close(few, all_nodes, atol=1e-6, rtol=1e-4)


def test_losses_on_predictions_need_all_nodes(make):
    assert make(HeadSettings(head="propagation"))._rows is not None
    assert make(HeadSettings(head="propagation", consistency_weight=1.0))._rows is None
    assert make(HeadSettings(head="propagation", teleport=0.2))._rows is None
    assert make(HeadSettings(head="gcn"))._rows is None


def test_a_task_built_without_validation_nodes_can_still_be_judged_on_some(make):
    task = make(HeadSettings(head="propagation"))
    validation = Validation(torch.tensor([1, 2, 20]), torch.from_numpy(TRUTH[[1, 2, 20]]))
    expected = validation.measure(task.scores()[validation.nodes])
    for found, wanted in zip(task.validate(validation), expected):
        assert_close(found, wanted)
