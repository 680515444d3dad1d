import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.distributed import SINGLE_PROCESS, Partition
from glnn.engine import row_task
from glnn.engine.inputs import make_generator
from glnn.engine.row_task import RowTask, _default_gate, gather_pool
from glnn.engine.settings import PRESETS
from glnn.engine.trainer import Trainer
from glnn.graph.operators import RandomWalk, add_loops
from glnn.nn.features import Features, NetworkSettings
from glnn.nn.losses import gate_weights
from glnn.nn.row_heads import HopsNet

# The task

LINEAR, HOPS = (
    track.head for track in PRESETS["default"].tracks_for(True) if track.head.is_on_rows
)
every_head = pytest.mark.parametrize("settings", [LINEAR, HOPS], ids=["linear", "hops"])


@pytest.fixture
def make(problem):
    def make(settings, peers=SINGLE_PROCESS, seed=0):
        part = Partition(60, peers)
        block = add_loops(problem.graph[part.rows], part.start)
        return RowTask(
            RandomWalk(block, part),
            Features.of(problem.features[part.rows]),
            problem.labels,
            settings,
            init=make_generator(seed, 0),
            noise=make_generator(seed, 1),
            partition=part,
            validation=problem.validation,
        )

    return make


@every_head
def test_it_learns_the_classes_of_nodes_without_labels(make, problem, blocks, settings):
    task = make(settings)
    Trainer(n_epochs=60, learning_rate=settings.learning_rate).fit(task, problem.validation)
    with torch.no_grad():
        found = task.scores().argmax(1).numpy()
    assert (found == blocks[2])[28:].mean() > 0.75


@every_head
def test_validation_rows_are_judged_as_all_nodes_would_be(make, problem, settings):
    task = make(settings)
    with torch.no_grad():
        assert_close(
            task.validate(problem.validation),
            problem.validation.measure(task.scores()[problem.validation.nodes]),
        )


@every_head
def test_processes_take_the_same_steps(make, settings, together, problem):
    known = dataclasses.replace(settings, pool_size=0)  # which any number of processes has

    def work(peers):
        task = make(known, peers)
        Trainer(n_epochs=5, learning_rate=0.01).fit(task, problem.validation)
        return {name: value.clone() for name, value in task.module.state_dict().items()}

    alone, *others = work(SINGLE_PROCESS), *together(3, work)
    for other in others:
        for name, value in other.items():
            assert_close(value, alone[name], atol=1e-4, rtol=1e-3)


def test_a_step_draws_each_label_at_most_once_and_other_rows(make):
    task = make(dataclasses.replace(LINEAR, batch_labels=5, batch_nodes=50))
    task._pool = torch.arange(60)  # in place of the rows, their numbers
    drawn, classes, _ = task._draw_batch()
    assert len(drawn) == 55 and len(classes) == 5
    assert len(torch.unique(drawn[:5])) == 5
    assert drawn[:5].max() < 8 <= drawn[5:].min() < drawn[5:].max() < 60
    task = make(dataclasses.replace(HOPS, batch_nodes=0))
    task._pool = torch.arange(60)
    assert task._draw_batch()[0].tolist() == list(range(8))


def test_labels_of_validation_nodes_reach_no_gradient(make, problem):
    first = make(LINEAR).terms(1.0)
    problem.validation.classes.copy_(problem.validation.classes.roll(1))
    second = make(LINEAR).terms(1.0)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert_close(value, second[name])


def test_agreement_counts_as_much_as_the_class_it_speaks_for(make, problem):
    settings = dataclasses.replace(LINEAR, batch_labels=None, gate=0.0)
    plain = make(settings).terms(1.0)
    weighted = problem.labels.with_weights(np.ones(len(problem.labels)))
    weighted.class_weights *= 3
    object.__setattr__(problem, "labels", weighted)
    tripled = make(settings).terms(1.0)
    assert_close(tripled["cross_entropy"], plain["cross_entropy"])
    assert_close(tripled["consistency"], 3 * plain["consistency"])


@pytest.mark.parametrize("n_classes", [3, 4, 10])
def test_twice_the_chance_passes_the_gate_and_less_does_not(n_classes):
    chance = torch.tensor([1.99, 2.01]) / n_classes
    rest = (1 - chance) / (n_classes - 1)
    p = torch.cat([chance[:, None], rest[:, None].expand(2, n_classes - 1)], 1)
    assert gate_weights(p, min(_default_gate(n_classes), 0.7), None).tolist() == [False, True]


# The pool

NODES = np.array([3, 7, 1, 0, 9])


def make_net(n_steps=2):
    settings = NetworkSettings(n_hidden=3, dropout=0.0, n_steps=n_steps)
    return HopsNet(6, 2, settings, torch.Generator().manual_seed(0))


@pytest.fixture
def graph():
    upper = np.triu(np.random.default_rng(0).random((10, 10)) < 0.4, 1)
    return sp.csr_matrix((upper | upper.T).astype(np.float64))


@pytest.fixture
def x():
    drawn = np.random.default_rng(1).random((10, 6)).astype(np.float32)
    return np.where(drawn > 0.5, drawn, 0).astype(np.float32)


def pool_of(graph, x, n_steps=2, part=None):
    part = part or Partition(10, SINGLE_PROCESS)
    walk = RandomWalk(graph[part.rows], part)
    return gather_pool(make_net(n_steps), walk, Features.of(x[part.rows]), NODES, part)


def test_rows_are_those_of_the_spread_features_standardised(graph, x):
    raw = make_net().propagate(RandomWalk(graph), torch.from_numpy(x)).flatten(1)[NODES]
    deviation, mean = torch.std_mean(raw, 0, correction=0)
    assert_close(pool_of(graph, x), (raw - mean) / deviation)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_blocks_of_columns_make_no_difference(graph, x, storage, monkeypatch):
    whole = pool_of(graph, x)
    monkeypatch.setattr(row_task, "_BLOCK_SIZE", 25)
    monkeypatch.setattr(row_task, "_MAX_BLOCK_SIZE", 25)
    assert_close(pool_of(graph, storage(x)), whole)


def test_every_process_has_the_same_pool(graph, x, together):
    alone = pool_of(graph, x)
    for rows in together(3, lambda peers: pool_of(graph, x, part=Partition(10, peers))):
        assert_close(rows, alone)


def test_a_constant_column_is_zero(graph, x):
    x[:, 2] = 5.0
    assert (pool_of(graph, x, 0)[:, 2] == 0).all()
