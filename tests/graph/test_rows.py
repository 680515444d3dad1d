import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph import rows
from glnn.graph.rows import CsrMatrix, as_row_matrix, to_dense_array

# CSR matrices


def single(height=50, width=40, density=0.2):
    """A matrix in single precision with some empty rows, as pattern and as array."""
    matrix = sp.random(height, width, density, format="csr", rng=np.random.default_rng(3))
    matrix = sp.csr_matrix(sp.diags(np.sign(np.arange(height) % 4.0)) @ matrix).astype(np.float32)
    return CsrMatrix.from_scipy(matrix), matrix.toarray()


@pytest.mark.parametrize("width", [1, 8, 17, 100])
def test_products_in_single_precision_are_those_of_the_full_matrix(width, rng):
    matrix, dense = single()
    x = torch.randn(40, width, generator=rng)
    assert_close(matrix.spmm(x), torch.from_numpy(dense) @ x, atol=1e-5, rtol=1e-5)
    back = torch.randn(50, width, generator=rng)
    transposed = torch.from_numpy(dense).T @ back
    assert_close(matrix.transpose().spmm(back), transposed, atol=1e-5, rtol=1e-5)


def test_a_row_does_not_depend_on_the_number_of_threads_to_the_bit(rng):
    matrix, _ = single(3000, 40)
    x, n_threads = torch.randn(40, 64, generator=rng), torch.get_num_threads()
    found = []
    for n in (1, 2, 3):
        torch.set_num_threads(n)
        found.append(matrix.spmm(x))
    torch.set_num_threads(n_threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_a_matrix_without_rows_or_columns_has_a_product(shape):
    nothing = torch.empty(0, dtype=torch.int64)
    matrix = CsrMatrix.from_entries(shape, nothing, nothing, torch.empty(0))
    assert torch.equal(matrix.spmm(torch.ones(shape[1], 2)), torch.zeros(shape[0], 2))


# Row matrices

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
    rows, index = as_row_matrix(store(matrix), device=device), np.array([3, 3, 16, 4])
    right, scale = np.random.default_rng(0).standard_normal((2, 40, 40))
    weights = np.arange(17.0)

    def same(found, expected):
        assert_close(found.cpu(), torch.from_numpy(np.ascontiguousarray(expected)))

    on = lambda array: torch.from_numpy(array).to(device)  # noqa: E731
    assert (len(rows), rows.n_columns, rows.dtype) == (17, 40, torch.float64)
    same(rows.to_dense(), matrix)
    same(rows.block(slice(2, 9)).to_dense(), matrix[2:9])
    same(rows.take(on(index)).to_dense(), matrix[index])
    same(rows.concatenate([rows.block(slice(0, 3))]).to_dense(), np.vstack([matrix, matrix[:3]]))
    same(rows.matmul(on(right)), matrix @ right)
    same(rows.left_matmul(on(right[:2])), right[:2] @ matrix.T)
    same(rows.scale_columns(on(scale[0])).to_dense(), matrix * scale[0])
    same(rows.square().to_dense(), matrix**2)
    same(rows.column_sums(on(weights)), weights @ matrix)
    same(rows.with_tensors(rows.tensors()).to_dense(), matrix)
    assert rows.to(torch.float32).dtype == torch.float32


@pytest.mark.parametrize("left", STORAGES.values(), ids=STORAGES)
@pytest.mark.parametrize("right", STORAGES.values(), ids=STORAGES)
@pytest.mark.parametrize("at_once", [1, 60, 2**20])
@pytest.mark.parametrize("device", DEVICES)
def test_products_of_pairs_are_the_same_for_every_storage_and_chunk(
    left, right, at_once, device, matrix, monkeypatch
):
    monkeypatch.setattr(rows, "_BLOCK_ENTRIES", at_once)
    rng = np.random.default_rng(1)
    other = rng.standard_normal((9, 40)) * (rng.random((9, 40)) < 0.3)
    i, j = rng.integers(0, 17, 50), rng.integers(0, 9, 50)
    first, second = (
        as_row_matrix(left(matrix), device=device),
        as_row_matrix(right(other), device=device),
    )
    ends = (torch.from_numpy(i).to(device), torch.from_numpy(j).to(device))
    expected = torch.from_numpy(matrix[i] * other[j])
    assert_close(first.pair_dots(second, *ends).cpu(), expected.sum(1))
    if left is right:
        assert_close(first.pair_products(second, *ends).to_dense().cpu(), expected)


def test_entries_out_of_order_or_twice_are_put_in_their_places():
    swapped = sp.csr_matrix(([2.0, 1.0], [1, 0], [0, 2]), shape=(1, 2))
    doubled = sp.csr_matrix(([2.0, 1.0], [1, 1], [0, 2]), shape=(1, 2))
    assert to_dense_array(swapped).tolist() == [[1.0, 2.0]]
    assert to_dense_array(doubled).tolist() == [[0.0, 3.0]]
