import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.graph.implicit import Factor, Implicit, Tile, tile_size
from glnn.graph.pairs import Pairs, PairValues
from glnn.graph.row_matrix import row_matrix
from glnn.graph.spread import SpreadRows, pair_owners
from glnn.peers import ALONE, Partition

N = 23
SIZES = pytest.mark.parametrize("size", [1, 2, 3, 4])


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
    rows = [SpreadRows(row_matrix(m[part.rows]), part) for m in (s, left, right)]
    factors = (Factor(rows[0], rows[0], 2.0), Factor(rows[1], rows[2]))
    sparse = PairValues.of_rows(part, sp.csr_matrix(graph[part.rows]))
    return Implicit(0.3, 0.7, torch.from_numpy(nodes), sparse, factors), part


def own_pairs(part):
    i, j = torch.triu_indices(N, N)
    mine = pair_owners(part, i, j) == part.peers.rank
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
def test_tiles_show_every_pair_once_without_the_sparse_part(size, kind, block_bytes, together):
    _, formed = parts(kind)

    def work(peers):
        matrix, part = matrix_of(kind, peers)
        seen = np.zeros((N, N))
        for tile in matrix.tiles(part, "cpu", block_bytes=block_bytes):
            rows = slice(tile.first_row, tile.first_row + tile.values.shape[0])
            columns = slice(tile.first_column, tile.first_column + tile.values.shape[1])
            assert np.allclose(tile.values.numpy(), formed[rows, columns], atol=1e-12)
            seen[rows, columns] += 1 if not tile.on_diagonal else np.triu(np.ones_like(tile.values))
        return seen

    seen = sum(together(size, work))
    assert ((seen + seen.T - np.diag(np.diag(seen))) == 1).all()


def test_nothing_is_a_matrix_of_zeros():
    part = Partition(3, ALONE)
    (tile,) = Implicit().tiles(part, "cpu")
    assert not tile.values.any()
    assert not (Implicit() + Implicit()).on_pairs(Pairs(part, *torch.triu_indices(3, 3))).any()


def test_pairs_are_filled_in_a_tile_in_both_directions():
    pairs = Pairs(Partition(9, ALONE), torch.tensor([1, 3, 3]), torch.tensor([4, 3, 8]))
    tile = Tile(3, 1, torch.zeros(3, 4))
    tile.fill(pairs, 7.0)
    assert torch.nonzero(tile.values).tolist() == [[0, 2], [1, 0]]


def test_a_tile_is_as_small_as_it_must_be():
    assert tile_size(10**9, 1) == 1
    assert tile_size(1, 32 * 100) == 10
