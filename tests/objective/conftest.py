"""Every quadratic penalty on a list of pairs, in one process or several."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.distributed import Partition
from glnn.graph import DenseAdjacency
from glnn.graph.pairs import Pairs, ShardedRows
from glnn.graph.rows import as_row_matrix
from glnn.objective.smoothness import ChannelSmoothness, FrobeniusSmoothness
from glnn.objective.terms import Loops, RowSums

N = 24
SIGNAL = np.random.default_rng(5).standard_normal((N, 4)) * (np.arange(4) < 3)


def make_penalty(kind, peers):
    part = Partition(N, peers)
    rows = ShardedRows(as_row_matrix(SIGNAL[part.rows]), part)
    thin = ShardedRows(as_row_matrix(sp.csr_matrix(SIGNAL[part.rows])), part)
    like = torch.ones(N, dtype=torch.float64)
    return {
        "row_sums": lambda: RowSums(0.5, like),
        "loops": lambda: Loops(0.5, like),
        "channel": lambda: ChannelSmoothness(0.5, rows),
        "channel of entries": lambda: ChannelSmoothness(0.5, thin),
        "frobenius": lambda: FrobeniusSmoothness(0.5, rows),
        "frobenius of entries": lambda: FrobeniusSmoothness(0.5, thin),
    }[kind]()


def some_pairs(peers, n_pairs=60):
    """Return this process's pairs of a random list that all share."""
    part, rng = Partition(N, peers), np.random.default_rng(6)
    i, j = np.sort(rng.integers(0, N, (2, n_pairs)), axis=0)
    keys = np.unique(i * N + j)
    i, j = (torch.from_numpy(ends) for ends in np.divmod(keys, N))
    mine = part.pair_owners(i, j) == peers.rank
    return Pairs(part, i[mine], j[mine])


@pytest.fixture
def penalty_of():
    return make_penalty


@pytest.fixture
def pairs_of():
    return some_pairs


def change_by_share(share, links, loop, prior=None, prior_loop=0.0):
    """Return what a share says the objective changes by when a node with these links comes."""
    numerators = torch.zeros_like(links) + share.edges
    numerators = numerators + (0 if prior is None else share.prior * prior)
    own = share.loop + share.prior * prior_loop / 2
    value = (share.edge_curvature * links.square() - 2 * numerators * links).sum()
    value += share.loop_curvature * loop**2 - 2 * own * loop
    for tied in share.couplings:
        total = (tied.edges * links).sum() + tied.loop * loop
        value += tied.weight * ((total - tied.target) ** 2 - tied.target**2)
    return value


def enlarged(matrix, links, loop):
    """Return a graph with one node more."""
    n = len(matrix)
    whole = torch.zeros(n + 1, n + 1, dtype=torch.float64)
    whole[:n, :n], whole[n, :n], whole[:n, n], whole[n, n] = matrix, links, links, loop
    return DenseAdjacency(whole)


@pytest.fixture
def share_change():
    return change_by_share


@pytest.fixture
def with_new_node():
    return enlarged


@pytest.fixture
def case():
    """A graph of five nodes, links of a new one and its loop."""
    generator = torch.Generator().manual_seed(0)
    upper = torch.rand(5, 5, generator=generator, dtype=torch.float64).triu()
    links = torch.rand(5, generator=generator, dtype=torch.float64)
    return upper + upper.triu(1).T, links, 0.3
