import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.engine import pool
from glnn.engine.pool import Pool, pool_nodes
from glnn.graph.random_walk import RandomWalk
from glnn.nn.features import Features
from glnn.nn.hops import HopsNet
from glnn.peers import ALONE, Partition

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
    made = Pool.of(net, walk, Features.of(x), NODES, Partition(10, ALONE))
    raw = net.spread(walk, torch.from_numpy(x)).flatten(1)[NODES]
    assert_close(made.rows, net.norm.standardized(raw))
    assert_close(made.rows.mean(0), torch.zeros(18), atol=1e-6, rtol=0)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_matrix])
def test_blocks_of_columns_make_no_difference(graph, x, storage, monkeypatch):
    whole = Pool.of(make_net(), RandomWalk.of(graph), Features.of(x), NODES, Partition(10, ALONE))
    monkeypatch.setattr(pool, "_BLOCK", 25)
    monkeypatch.setattr(pool, "_MOST", 25)
    parts = Pool.of(
        make_net(), RandomWalk.of(graph), Features.of(storage(x)), NODES, Partition(10, ALONE)
    )
    assert_close(parts.rows, whole.rows)


def test_every_process_has_the_same_pool(graph, x, together):
    def work(peers):
        part = Partition(10, peers)
        walk = RandomWalk.of(graph[part.rows], part)
        return Pool.of(make_net(), walk, Features.of(x[part.rows]), NODES, part).rows

    alone = Pool.of(make_net(), RandomWalk.of(graph), Features.of(x), NODES, Partition(10, ALONE))
    for rows in together(3, work):
        assert_close(rows, alone.rows)


def test_a_constant_column_is_zero(graph, x):
    x[:, 2] = 5.0
    made = Pool.of(make_net(0), RandomWalk.of(graph), Features.of(x), NODES, Partition(10, ALONE))
    assert (made.rows[:, 2] == 0).all()


def test_a_pool_has_labelled_nodes_first_and_nobody_twice(monkeypatch):
    labelled, watched = np.array([5, 2]), np.array([8])
    nodes = pool_nodes(labelled, watched, 4, 50, 10, np.random.default_rng(0))
    assert nodes[:3].tolist() == [5, 2, 8]
    assert len(nodes) == len(np.unique(nodes)) == 7
    monkeypatch.setattr(pool, "_MAX_NUMBERS", 50)
    assert len(pool_nodes(labelled, watched, 4, 50, 10, np.random.default_rng(0))) == 5


@pytest.mark.parametrize(("n_columns", "n_nodes"), [(0, 30), (1, 30), (2, 15), (40, 2)])
def test_a_pool_has_as_many_nodes_as_its_columns_leave_room_for(n_columns, n_nodes, monkeypatch):
    monkeypatch.setattr(pool, "_MAX_NUMBERS", 30)
    rng = np.random.default_rng(0)
    found = pool_nodes(np.array([5]), np.array([8]), 50, 50, n_columns, rng)
    assert len(found) == len(np.unique(found)) == n_nodes


@pytest.mark.parametrize(
    ("n_rows", "width"), [(1, 2**22), (2**12, 2**10), (2**17, 64), (2**20, 16), (2**30, 1)]
)
def test_blocks_fit_the_cache_unless_they_would_be_narrow(n_rows, width):
    assert pool._block_width(n_rows, torch.device("cpu")) == width
