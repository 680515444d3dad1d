import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.distributed import Partition
from glnn.graph.pairs import (
    ImplicitMatrix,
    LowRankPart,
    Pairs,
    ShardedRows,
    SparseAdjacency,
    exchange_rows,
)
from glnn.graph.rows import DenseRows, as_row_matrix

# Pairs of nodes


def alone(n):
    return Partition(n)


def ends(*lists):
    return tuple(torch.tensor(part) for part in lists)


def symmetric(n, rng, share=0.4):
    upper = np.triu(rng.random((n, n)) * (rng.random((n, n)) < share))
    return sp.csr_matrix(upper + np.triu(upper, 1).T)


def test_union_names_each_pair_once_whatever_its_direction():
    pairs = Pairs.union(alone(4), [ends([3, 1], [1, 3]), ends([2], [2])])
    assert (pairs.i.tolist(), pairs.j.tolist()) == ([1, 2], [3, 2])
    assert pairs.counts.tolist() == [2.0, 1.0]
    assert pairs.loops.tolist() == [1]


@pytest.mark.parametrize("size", [1, 2, 4])
def test_values_make_a_symmetric_matrix_whose_rows_are_spread(size, together):
    matrix = symmetric(30, np.random.default_rng(0))

    def work(peers):
        part = Partition(30, peers)
        own = SparseAdjacency.from_rows(part, matrix[part.rows])
        assert (part.pair_owners(own.pairs.i, own.pairs.j) == peers.rank).all()
        return own.pairs.to_scipy(own.values)

    blocks = together(size, work)
    assert all(block.has_sorted_indices for block in blocks)
    assert (sp.vstack(blocks) != matrix).nnz == 0


def test_a_matrix_with_unsorted_and_doubled_entries_is_taken_as_what_it_means():
    loose = sp.csr_matrix(([2.0, 1.0, 1.0, 2.0, 2.0], [1, 0, 0, 0, 2], [0, 3, 4, 5]), shape=(3, 3))
    found = SparseAdjacency.from_rows(alone(3), loose)
    assert (found.pairs.i.tolist(), found.pairs.j.tolist()) == ([0, 0, 2], [0, 1, 2])
    assert found.values.tolist() == [2.0, 2.0, 2.0]
    assert loose.nnz == 5  # the caller's matrix is as it was


def test_sums_of_sparse_matrices_are_those_of_scipy():
    rng = np.random.default_rng(2)
    first, second = symmetric(12, rng), symmetric(12, rng)
    one, other = (SparseAdjacency.from_rows(alone(12), m) for m in (first, second))
    total = one + SparseAdjacency(other.pairs, 2 * other.values)
    assert np.allclose(total.pairs.to_scipy(total.values).toarray(), (first + 2 * second).toarray())


# Implicit matrices

N = 23
SIZES = pytest.mark.parametrize("size", [1, 2, 3])


def parts(kind):
    """Return the parts of a matrix, and the matrix formed; the sparse part apart."""
    rng = np.random.default_rng(0)
    s = rng.standard_normal((N, 40)) * (rng.random((N, 40)) < (0.03 if kind == "thin" else 1.0))
    u, v = rng.standard_normal((2, N, 2))
    nodes, graph = rng.standard_normal(N), np.triu(rng.random((N, N)) < 0.2) * 1.0
    graph = graph + np.triu(graph, 1).T
    formed = 0.3 + nodes[:, None] + nodes[None] + 0.7 * np.eye(N) + 2 * s @ s.T
    formed += np.hstack([u, v]) @ np.hstack([v, u]).T
    store = np.asarray if kind == "dense" else sp.csr_matrix
    return (store(s), np.hstack([u, v]), np.hstack([v, u]), nodes, graph), formed


def matrix_of(kind, peers):
    (s, left, right, nodes, graph), _ = parts(kind)
    part = Partition(N, peers)
    rows = [ShardedRows(as_row_matrix(m[part.rows]), part) for m in (s, left, right)]
    factors = (LowRankPart(rows[0], rows[0], 2.0), LowRankPart(rows[1], rows[2]))
    sparse = SparseAdjacency.from_rows(part, sp.csr_matrix(graph[part.rows]))
    return ImplicitMatrix(0.3, 0.7, torch.from_numpy(nodes), sparse, factors), part


def own_pairs(part):
    i, j = torch.triu_indices(N, N)
    mine = part.pair_owners(i, j) == part.peers.rank
    return Pairs(part, i[mine], j[mine])


@SIZES
@pytest.mark.parametrize("kind", ["dense", "thin", "thick"])
def test_entries_on_pairs_are_those_of_the_formed_matrix(size, kind, together):
    (*_, graph), formed = parts(kind)
    whole = formed + graph

    def work(peers):
        matrix, part = matrix_of(kind, peers)
        pairs = own_pairs(part)
        assert np.allclose(matrix.on_pairs(pairs), whole[pairs.i, pairs.j], atol=1e-12)
        assert np.allclose((matrix + matrix).on_pairs(pairs), 2 * whole[pairs.i, pairs.j])
        return len(pairs)

    assert sum(together(size, work)) == N * (N + 1) // 2


@SIZES
@pytest.mark.parametrize("kind", ["dense", "thin", "thick"])
@pytest.mark.parametrize("block_bytes", [1, 2000, 2**20])
def test_tiles_show_every_pair_once_but_those_that_are_known(
    size, kind, block_bytes, together, monkeypatch
):
    (*_, graph), formed = parts(kind)
    formed[graph > 0] = -1.0
    monkeypatch.setattr("glnn.graph.rows.BLOCK_BYTES", block_bytes)

    def work(peers):
        matrix, _ = matrix_of(kind, peers)
        seen = np.zeros((N, N))
        for first_row, first_column, values in matrix.tiles(matrix.sparse.pairs, -1.0):
            rows = slice(first_row, first_row + values.shape[0])
            columns = slice(first_column, first_column + values.shape[1])
            assert np.allclose(values.numpy(), formed[rows, columns], atol=1e-12)
            seen[rows, columns] += 1 if first_row != first_column else np.triu(np.ones_like(values))
        return seen

    seen = sum(together(size, work))
    assert ((seen + seen.T - np.diag(np.diag(seen))) == 1).all()


# Sharded rows
MATRIX = np.random.default_rng(0).standard_normal((N, 5)) * (np.arange(5) < 3)


def own_rows(peers, store):
    part = Partition(N, peers)
    return ShardedRows(as_row_matrix(store(MATRIX[part.rows])), part)


@SIZES
@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix])
def test_every_process_sees_every_block_once_its_own_first(size, store, together):
    def work(peers):
        rows = own_rows(peers, store)
        return peers.rank, [(rank, block.to_dense()) for rank, block in rows.blocks()]

    for rank, seen in together(size, work):
        assert seen[0][0] == rank
        assert_close(
            torch.cat([block for _, block in sorted(seen, key=lambda s: s[0])]),
            torch.from_numpy(MATRIX),
        )


@SIZES
@pytest.mark.parametrize("store", [np.asarray, sp.csr_matrix])
def test_what_is_sent_arrives_at_its_owner(size, store, together):
    def work(peers):
        rows = own_rows(peers, store)
        part = rows.layout
        numbers = torch.arange(part.start, part.stop)
        owner = numbers % size
        (came,) = part.exchange(owner, numbers)
        return came, exchange_rows(part, owner, rows.local).to_dense()

    for rank, (numbers, rows) in enumerate(together(size, work)):
        assert sorted(numbers.tolist()) == list(range(rank, N, size))
        assert_close(rows, torch.from_numpy(MATRIX[numbers]))


@pytest.mark.parametrize("size", [1, 2])
def test_all_processes_decide_alike_whether_rows_are_dense(size, together):
    matrix = np.zeros((32, 4))
    matrix[:16] = 1.0  # the first process would decide otherwise than the second

    def work(peers):
        part = Partition(32, peers)
        rows = ShardedRows(as_row_matrix(sp.csr_matrix(matrix[part.rows])), part)
        assert rows.densify(0.6) is rows
        dense = rows.densify(0.5)
        assert isinstance(dense.local, DenseRows)
        return dense.local.to_dense()

    assert_close(torch.cat(together(size, work)), torch.from_numpy(matrix))
