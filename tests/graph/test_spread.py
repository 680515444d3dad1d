import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph.row_matrix import DenseRows, row_matrix
from glnn.graph.spread import (
    SpreadRows,
    meets,
    owners,
    pair_owners,
    sent,
    sent_rows,
    spread,
    sweep_owners,
)
from glnn.peers import Partition

N = 23
MATRIX = np.random.default_rng(0).standard_normal((N, 5)) * (np.arange(5) < 3)
SIZES = pytest.mark.parametrize("size", [1, 2, 3, 4])


def own_rows(peers, store):
    part = Partition(N, peers)
    return SpreadRows(row_matrix(store(MATRIX[part.rows])), part)


@SIZES
@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix])
def test_every_process_sees_every_block_once_its_own_first(size, store, together):
    def work(peers):
        rows = own_rows(peers, store)
        return [(rank, block.dense()) for rank, block in rows.blocks()]

    for rank, seen in enumerate(together(size, work)):
        assert seen[0][0] == rank
        assert_close(
            torch.cat([block for _, block in sorted(seen, key=lambda s: s[0])]),
            torch.from_numpy(MATRIX),
        )


@SIZES
def test_owners_are_those_of_the_partition(size, together):
    def work(peers):
        part = Partition(N, peers)
        i = torch.randint(0, N, (200,), generator=torch.Generator().manual_seed(0))
        assert owners(part, i).tolist() == part.owner(i.numpy()).tolist()

    together(size, work)


@SIZES
def test_a_pair_is_with_a_process_that_has_one_of_its_rows(size, together):
    def work(peers):
        part = Partition(N, peers)
        i, j = torch.triu_indices(N, N)
        assert torch.equal(pair_owners(part, i, j), pair_owners(part, j, i))
        mine = pair_owners(part, i, j) == peers.rank
        here = [part.has(ends[mine].numpy()) for ends in (i, j)]
        assert (here[0] | here[1]).all()
        return int(mine.sum())

    assert sum(together(size, work)) == N * (N + 1) // 2


def test_pairs_are_spread_evenly(together):
    counts = together(
        4, lambda peers: pair_owners(Partition(640, peers), *torch.triu_indices(640, 640))
    )
    sizes = torch.bincount(counts[0]).double()
    assert sizes.max() <= 1.02 * sizes.mean()


@SIZES
def test_two_blocks_are_compared_by_one_of_their_owners(size, together):
    for first in range(size):
        assert meets(first, first, size)
        for second in range(first):
            assert meets(first, second, size) != meets(second, first, size)

    def work(peers):
        part = Partition(N, peers)
        i, j = torch.triu_indices(N, N)
        by = sweep_owners(part, i, j)
        there = torch.where(by == owners(part, i), owners(part, j), owners(part, i))
        assert all(meets(a, b, size) for a, b in zip(by.tolist(), there.tolist()))

    together(size, work)


@SIZES
@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix])
def test_what_is_sent_arrives_at_its_owner(size, store, together):
    def work(peers):
        rows = own_rows(peers, store)
        part = rows.partition
        numbers = torch.arange(part.start, part.stop)
        owner = numbers % size
        (came,) = sent(part, owner, numbers)
        return came, sent_rows(part, owner, rows.own).dense()

    for rank, (numbers, rows) in enumerate(together(size, work)):
        assert sorted(numbers.tolist()) == list(range(rank, N, size))
        assert_close(rows, torch.from_numpy(MATRIX[numbers]))


def test_a_tensor_is_spread_over_one_process():
    whole = spread(torch.eye(3))
    assert whole.partition.n_rows == 3
    assert spread(whole) is whole
    assert whole.summed(torch.ones(2)).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("size", [1, 2])
def test_all_processes_decide_alike_whether_rows_are_dense(size, together):
    matrix = np.zeros((32, 4))
    matrix[:16] = 1.0  # the first process would decide otherwise than the second

    def work(peers):
        part = Partition(32, peers)
        rows = SpreadRows(row_matrix(sp.csr_matrix(matrix[part.rows])), part)
        assert rows.dense_from(0.6) is rows
        dense = rows.dense_from(0.5)
        assert isinstance(dense.own, DenseRows)
        return dense.own.dense()

    assert_close(torch.cat(together(size, work)), torch.from_numpy(matrix))
