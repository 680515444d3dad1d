import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph import row_base
from glnn.graph.row_matrix import row_matrix

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
STORAGES = {"dense": np.asarray, "sparse": sp.csr_matrix}
every_storage = pytest.mark.parametrize("store", STORAGES.values(), ids=STORAGES)


@pytest.fixture(params=[0.03, 0.6], ids=["thin", "thick"])
def matrix(request):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((17, 40)) * (rng.random((17, 40)) < request.param)
    x[4] = 0
    return x


@every_storage
@pytest.mark.parametrize("device", DEVICES)
def test_both_storages_have_the_same_numbers(store, device, matrix):
    rows, index = row_matrix(store(matrix), device=device), np.array([3, 3, 16, 4])
    right, scale = np.random.default_rng(0).standard_normal((2, 40, 40))
    weights = np.arange(17.0)

    def same(found, expected):
        assert_close(found.cpu(), torch.from_numpy(np.ascontiguousarray(expected)))

    on = lambda array: torch.from_numpy(array).to(device)  # noqa: E731
    assert (len(rows), rows.n_columns, rows.dtype) == (17, 40, torch.float64)
    same(rows.dense(), matrix)
    same(rows.block(slice(2, 9)).dense(), matrix[2:9])
    same(rows.take(on(index)).dense(), matrix[index])
    same(rows.joined([rows.block(slice(0, 3))]).dense(), np.vstack([matrix, matrix[:3]]))
    same(rows.times(on(right)), matrix @ right)
    same(rows.met_by(on(right[:2])), right[:2] @ matrix.T)
    same(rows.scaled(on(scale[0])).dense(), matrix * scale[0])
    same(rows.squared().dense(), matrix**2)
    same(rows.column_sums(on(weights)), weights @ matrix)
    same(rows.lengths(), (matrix**2).sum(1))
    same(rows.like(rows.tensors()).dense(), matrix)
    assert rows.to(torch.float32).dtype == torch.float32


@pytest.mark.parametrize("left", STORAGES.values(), ids=STORAGES)
@pytest.mark.parametrize("right", STORAGES.values(), ids=STORAGES)
@pytest.mark.parametrize("at_once", [1, 60, 2**20])
@pytest.mark.parametrize("device", DEVICES)
def test_products_of_pairs_are_the_same_for_every_storage_and_chunk(
    left, right, at_once, device, matrix, monkeypatch
):
    monkeypatch.setattr(row_base, "_ENTRIES", at_once)
    rng = np.random.default_rng(1)
    other = rng.standard_normal((9, 40)) * (rng.random((9, 40)) < 0.3)
    i, j = rng.integers(0, 17, 50), rng.integers(0, 9, 50)
    first, second = row_matrix(left(matrix), device=device), row_matrix(right(other), device=device)
    ends = (torch.from_numpy(i).to(device), torch.from_numpy(j).to(device))
    expected = torch.from_numpy(matrix[i] * other[j])
    assert_close(first.dots(second, *ends).cpu(), expected.sum(1))
    if left is right:
        assert_close(first.products(second, *ends).dense().cpu(), expected)


def test_no_pairs_have_no_products(matrix):
    none = torch.empty(0, dtype=torch.int64)
    for store in STORAGES.values():
        rows = row_matrix(store(matrix))
        assert rows.dots(rows, none, none).shape == (0,)
        assert rows.products(rows, none, none).dense().shape == (0, 40)
