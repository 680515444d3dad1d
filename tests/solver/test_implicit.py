import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.solver.implicit import (
    Factor,
    Implicit,
    dense_bytes,
    on_device,
    pair_dots,
    resident_pair_dots,
)
from glnn.solver.pairs import Pairs


def formed(matrix):
    n = len(matrix.nodes)
    total = matrix.constant + matrix.nodes[:, None] + matrix.nodes[None] + matrix.loop * np.eye(n)
    if matrix.sparse is not None:
        total = total + matrix.sparse.toarray()
    for factor in matrix.factors:
        left, right = (m.toarray() if sp.issparse(m) else m for m in (factor.left, factor.right))
        total = total + left @ right.T
    return total


@pytest.fixture(params=["dense", "thin", "thick", "mixed"])
def matrix(request, rng, make_graph):
    n = 23
    s = rng.standard_normal((n, 40)) * (rng.random((n, 40)) < 0.03)
    if request.param == "thick":
        s = rng.standard_normal((n, 40))
    right = s if request.param == "dense" else sp.csr_matrix(s)
    left = 2 * s if request.param in ("dense", "mixed") else sp.csr_matrix(2 * s)
    u, v = rng.standard_normal((2, n, 2))
    factors = (Factor(left, right), Factor(np.hstack([u, v]), np.hstack([v, u])))
    return Implicit(rng.standard_normal(n), 0.3, 0.7, make_graph(n, rng), factors)


def test_entries_on_pairs_are_those_of_the_formed_matrix(matrix):
    pairs = Pairs.union(23, [np.triu_indices(23)])
    assert np.allclose(matrix.on_pairs(pairs), formed(matrix)[pairs.i, pairs.j], atol=1e-12)


@pytest.mark.parametrize("block_bytes", [1, 2000, 2**20])
def test_tiles_cover_the_upper_triangle_with_the_formed_matrix(matrix, block_bytes):
    whole, seen = formed(matrix), np.zeros((23, 23))
    for tile in matrix.tiles(block_bytes=block_bytes):
        rows = slice(tile.first_row, tile.first_row + tile.values.shape[0])
        columns = slice(tile.first_column, tile.first_column + tile.values.shape[1])
        assert np.allclose(tile.values.numpy(), whole[rows, columns], atol=1e-12)
        seen[rows, columns] += 1
    assert (seen[np.triu_indices(23)] == 1).all()


def test_sum_adds_entry_by_entry(matrix):
    assert np.allclose(formed(matrix + matrix), 2 * formed(matrix))


@pytest.mark.parametrize("left_sparse", [True, False])
@pytest.mark.parametrize("right_sparse", [True, False])
def test_pair_dots_are_the_same_for_every_storage_and_chunk(left_sparse, right_sparse, rng):
    left, right = rng.standard_normal((2, 9, 5))
    i, j = rng.integers(0, 9, (2, 50))
    expected = (left[i] * right[j]).sum(1)
    left = sp.csr_matrix(left) if left_sparse else left
    right = sp.csr_matrix(right) if right_sparse else right
    for chunk_bytes in (16, 2**20):
        assert np.allclose(pair_dots(left, right, i, j, chunk_bytes=chunk_bytes), expected)


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
def test_rows_brought_to_a_device_are_the_matrix(make, rng):
    matrix = make(rng.standard_normal((6, 4)) * (rng.random((6, 4)) < 0.5))
    dense = matrix.toarray() if sp.issparse(matrix) else matrix
    assert np.array_equal(on_device(matrix, "cpu").numpy(), dense)
    assert dense_bytes(matrix) == dense.nbytes


@pytest.mark.parametrize("chunk_bytes", [1, 200, 2**20])
def test_products_of_resident_rows_are_those_of_the_pairs(chunk_bytes, rng):
    left, right = rng.standard_normal((2, 9, 5))
    i, j = rng.integers(0, 9, (2, 40))
    rows = (torch.from_numpy(side) for side in (left, right, i, j))
    found = resident_pair_dots(*rows, chunk_bytes=chunk_bytes).numpy()
    assert np.allclose(found, pair_dots(left, right, i, j), atol=1e-14)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_a_factor_on_the_gpu_has_the_same_entries(rng):
    left, right = sp.csr_matrix(rng.standard_normal((9, 5))), rng.standard_normal((9, 5))
    pairs = Pairs.union(9, [tuple(rng.integers(0, 9, (2, 20)))])
    here, there = (Factor(left, right, device).on_pairs(pairs) for device in ("cpu", "cuda"))
    assert np.allclose(here, there, atol=1e-14)
