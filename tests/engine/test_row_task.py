import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.distributed import SINGLE_PROCESS, Partition
from glnn.engine import row_task
from glnn.engine.inputs import make_generator
from glnn.engine.row_task import Pool, RowTask, _default_gate, choose_pool_nodes
from glnn.engine.settings import PRESETS
from glnn.engine.trainer import Trainer
from glnn.graph.operators import RandomWalk, add_loops
from glnn.nn.features import Features
from glnn.nn.losses import confidence_mask
from glnn.nn.row_heads import HopsNet

# The task

LINEAR, HOPS = (track.head for track in PRESETS["default"].tracks if track.head.is_on_rows)
every_head = pytest.mark.parametrize("settings", [LINEAR, HOPS], ids=["linear", "hops"])


@pytest.fixture
def make(problem):
    def make(settings, peers=SINGLE_PROCESS, seed=0):
        part = Partition(60, peers)
        block = add_loops(problem.graph[part.rows], part.start)
        return RowTask(
            RandomWalk.of(block, part),
            Features.of(problem.features[part.rows]),
            problem.labels,
            problem.validation,
            settings,
            init=make_generator(seed, 0),
            noise=make_generator(seed, 1),
            partition=part,
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


def test_processes_hold_a_share_of_the_rows_each_beside_those_that_are_known(make, together):
    def work(peers):
        return len(make(LINEAR, peers)._pool.nodes)

    assert work(SINGLE_PROCESS) == 60
    assert set(together(2, work)) == {30}
    assert set(together(3, work)) == {28}  # 8 labels and 20 validation nodes


def test_a_step_draws_each_label_at_most_once(make):
    task = make(dataclasses.replace(LINEAR, batch_labels=5))
    for _ in range(20):
        drawn = task._draw_labels()
        assert len(torch.unique(drawn)) == 5
        assert drawn.max() < 8
    assert make(HOPS)._draw_labels().tolist() == list(range(8))


def test_labels_of_validation_nodes_reach_no_gradient(make, problem):
    first = make(LINEAR).terms(1.0)
    other = np.roll(problem.validation.labels.numpy(), 1)
    swapped = dataclasses.replace(problem.validation, labels=torch.from_numpy(other))
    object.__setattr__(problem, "validation", swapped)
    second = make(LINEAR).terms(1.0)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert_close(value, second[name])


def test_labels_without_weight_teach_nothing(make, problem):
    weights = np.ones(len(problem.labels))
    weights[3] = 0.0
    object.__setattr__(problem, "labels", problem.labels.with_weights(weights))
    first = make(HOPS).terms(1.0)["cross_entropy"]
    problem.labels.classes[3] = 1 - problem.labels.classes[3]
    assert_close(make(HOPS).terms(1.0)["cross_entropy"], first)


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
    assert confidence_mask(p, min(_default_gate(n_classes), 0.7)).tolist() == [False, True]


def test_two_classes_have_the_highest_gate_and_one_has_none():
    assert (_default_gate(1), _default_gate(2)) == (0.0, 0.7)


def test_a_step_draws_other_rows_where_there_are_any(make):
    task = make(dataclasses.replace(LINEAR, batch_nodes=50))
    picked = torch.arange(8)
    drawn = task._add_others(picked)
    assert drawn[:8].tolist() == picked.tolist()
    assert len(drawn) == 58
    assert 8 <= drawn[8:].min() < drawn[8:].max() < 60
    assert make(dataclasses.replace(LINEAR, batch_nodes=0))._add_others(picked) is picked
    task._n_labels = len(task._pool.rows)
    assert task._add_others(picked) is picked


# The pool

NODES = np.array([3, 7, 1, 0, 9])


def make_net(n_steps=2):
    return HopsNet(
        6, 2, n_hidden=3, dropout=0.0, n_steps=n_steps, generator=torch.Generator().manual_seed(0)
    )


@pytest.fixture
def graph():
    upper = np.triu(np.random.default_rng(0).random((10, 10)) < 0.4, 1)
    return sp.csr_matrix((upper | upper.T).astype(np.float64))


@pytest.fixture
def x():
    drawn = np.random.default_rng(1).random((10, 6)).astype(np.float32)
    return np.where(drawn > 0.5, drawn, 0).astype(np.float32)


def test_rows_are_those_of_the_spread_features_standardised(graph, x):
    net, walk = make_net(), RandomWalk.of(graph)
    made = Pool.of(net, walk, Features.of(x), NODES, Partition(10, SINGLE_PROCESS))
    raw = net.propagate(walk, torch.from_numpy(x)).flatten(1)[NODES]
    assert_close(made.rows, net.norm.standardize(raw))
    assert_close(made.rows.mean(0), torch.zeros(18), atol=1e-6, rtol=0)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_blocks_of_columns_make_no_difference(graph, x, storage, monkeypatch):
    whole = Pool.of(
        make_net(), RandomWalk.of(graph), Features.of(x), NODES, Partition(10, SINGLE_PROCESS)
    )
    monkeypatch.setattr(row_task, "_BLOCK_SIZE", 25)
    monkeypatch.setattr(row_task, "_MAX_BLOCK_SIZE", 25)
    parts = Pool.of(
        make_net(),
        RandomWalk.of(graph),
        Features.of(storage(x)),
        NODES,
        Partition(10, SINGLE_PROCESS),
    )
    assert_close(parts.rows, whole.rows)


def test_every_process_has_the_same_pool(graph, x, together):
    def work(peers):
        part = Partition(10, peers)
        walk = RandomWalk.of(graph[part.rows], part)
        return Pool.of(make_net(), walk, Features.of(x[part.rows]), NODES, part).rows

    alone = Pool.of(
        make_net(), RandomWalk.of(graph), Features.of(x), NODES, Partition(10, SINGLE_PROCESS)
    )
    for rows in together(3, work):
        assert_close(rows, alone.rows)


def test_a_constant_column_is_zero(graph, x):
    x[:, 2] = 5.0
    made = Pool.of(
        make_net(0), RandomWalk.of(graph), Features.of(x), NODES, Partition(10, SINGLE_PROCESS)
    )
    assert (made.rows[:, 2] == 0).all()


def test_a_pool_has_labelled_nodes_first_and_nobody_twice(monkeypatch):
    labelled, watched = np.array([5, 2]), np.array([8])
    nodes = choose_pool_nodes(labelled, watched, 4, 50, 10, np.random.default_rng(0))
    assert nodes[:3].tolist() == [5, 2, 8]
    assert len(nodes) == len(np.unique(nodes)) == 7
    monkeypatch.setattr(row_task, "_MAX_NUMBERS", 50)
    assert len(choose_pool_nodes(labelled, watched, 4, 50, 10, np.random.default_rng(0))) == 5


@pytest.mark.parametrize(("n_columns", "n_nodes"), [(0, 30), (1, 30), (2, 15), (40, 2)])
def test_a_pool_has_as_many_nodes_as_its_columns_leave_room_for(n_columns, n_nodes, monkeypatch):
    monkeypatch.setattr(row_task, "_MAX_NUMBERS", 30)
    rng = np.random.default_rng(0)
    found = choose_pool_nodes(np.array([5]), np.array([8]), 50, 50, n_columns, rng)
    assert len(found) == len(np.unique(found)) == n_nodes


@pytest.mark.parametrize(
    ("n_rows", "width"), [(1, 2**22), (2**12, 2**10), (2**17, 64), (2**20, 16), (2**30, 1)]
)
def test_blocks_fit_the_cache_unless_they_would_be_narrow(n_rows, width):
    assert row_task._block_width(n_rows, torch.device("cpu")) == width
