import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph import rows
from glnn.graph.rows import (
    BLOCK_BYTES,
    DEVICE_BYTES,
    CsrMatrix,
    CsrPattern,
    added,
    block_bytes_of,
    dense_rows,
    entries_at_once,
    product,
    row_matrix,
)

# --- csr

ROWS = torch.tensor([2, 0, 2, 0])  # row 1 is empty; nothing is in order
COLUMNS = torch.tensor([1, 4, 0, 2])
SOURCE = torch.tensor([0, 1, 2, 0])  # the first value is shown twice


@pytest.fixture
def pattern():
    return CsrPattern.build(3, 5, ROWS, COLUMNS, SOURCE)


def full(values):
    matrix = torch.zeros(3, 5, dtype=values.dtype)
    matrix[ROWS, COLUMNS] = values[SOURCE]
    return matrix


def test_entries_are_sorted_by_row_then_column(pattern):
    assert pattern.offsets.tolist() == [0, 2, 2, 4]
    assert pattern.columns.tolist() == [2, 4, 0, 1]
    assert pattern.source.tolist() == [0, 1, 2, 0]


def test_the_product_is_that_of_the_full_matrix(pattern, rng):
    values, x = torch.rand(3, generator=rng), torch.rand(5, 2, generator=rng)
    assert_close(pattern.matmul(values, x), full(values) @ x)


def test_the_transposed_pattern_multiplies_by_the_transposed_matrix(pattern, rng):
    values, x = torch.rand(3, generator=rng), torch.rand(3, 2, generator=rng)
    assert_close(pattern.transposed().matmul(values, x), full(values).T @ x)


def test_transposing_twice_gives_the_pattern_back(pattern):
    twice = pattern.transposed().transposed()
    assert twice.shape == pattern.shape
    assert torch.equal(twice.offsets, pattern.offsets)
    assert torch.equal(twice.columns, pattern.columns)
    assert torch.equal(twice.source, pattern.source)


def test_a_pattern_without_entries_multiplies_to_zero():
    nothing = torch.empty(0, dtype=torch.int64)
    pattern = CsrPattern.build(2, 3, nothing, nothing, nothing)
    assert torch.equal(pattern.matmul(torch.empty(0), torch.ones(3, 2)), torch.zeros(2, 2))


WIDTHS = [1, 2, 7, 8, 15, 16, 17, 33, 64, 100]


def single(height=50, width=40, density=0.2):
    """A matrix in single precision with some empty rows, as pattern and as array."""
    matrix = sp.random(height, width, density, format="csr", rng=np.random.default_rng(3))
    matrix = sp.csr_matrix(sp.diags(np.sign(np.arange(height) % 4.0)) @ matrix).astype(np.float32)
    return CsrMatrix.from_scipy(matrix), matrix.toarray()


@pytest.mark.parametrize("width", WIDTHS)
def test_products_in_single_precision_are_those_of_the_full_matrix(width, rng):
    matrix, dense = single()
    x = torch.randn(40, width, generator=rng)
    wanted = torch.from_numpy(dense.astype(np.float64)) @ x.double()
    assert_close(product(matrix, x).double(), wanted, atol=1e-5, rtol=1e-5)
    total = torch.randn(50, width, generator=rng)
    wanted = wanted + total.double()
    assert_close(added(total.clone(), matrix, x).double(), wanted, atol=1e-5, rtol=1e-5)
    found = added(total, matrix, x, out=torch.empty_like(total))
    assert_close(found.double(), wanted, atol=1e-5, rtol=1e-5)


def test_what_is_added_to_is_left_alone_where_there_is_another_place(rng):
    matrix, _ = single()
    total, x = torch.randn(50, 8, generator=rng), torch.randn(40, 8, generator=rng)
    before = total.clone()
    added(total, matrix, x, out=torch.empty_like(total))
    assert torch.equal(total, before)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_column_does_not_depend_on_those_beside_it_to_the_bit(width, rng):
    matrix, _ = single()
    x = torch.randn(40, 100, generator=rng)
    assert torch.equal(product(matrix, x)[:, :width], product(matrix, x[:, :width]))


def test_a_row_does_not_depend_on_the_number_of_threads_to_the_bit(rng):
    matrix, _ = single(3000, 40)
    x, n_threads = torch.randn(40, 64, generator=rng), torch.get_num_threads()
    found = []
    for n in (1, 2, 3):
        torch.set_num_threads(n)
        found.append(product(matrix, x))
    torch.set_num_threads(n_threads)
    assert torch.equal(found[0], found[1])
    assert torch.equal(found[0], found[2])


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
def test_a_matrix_without_rows_or_columns_has_a_product(shape):
    nothing = torch.empty(0, dtype=torch.int64)
    matrix = CsrPattern.build(*shape, nothing, nothing, nothing).filled(torch.empty(0))
    assert torch.equal(product(matrix, torch.ones(shape[1], 2)), torch.zeros(shape[0], 2))


# --- row_base


def test_a_device_that_is_not_the_host_takes_larger_blocks():
    host, device = torch.device("cpu"), torch.device("cuda")
    assert (block_bytes_of(host), block_bytes_of(device)) == (BLOCK_BYTES, DEVICE_BYTES)
    assert block_bytes_of(host, 5) == 5
    assert entries_at_once(device) > entries_at_once(host)


def test_an_array_that_may_not_be_written_is_copied():
    frozen = np.ones((2, 2))
    frozen.flags.writeable = False
    assert row_matrix(frozen).dense().sum() == 4


# --- row_matrix

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
    monkeypatch.setattr(rows, "_ENTRIES", at_once)
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


# --- sparse_rows

MATRIX = np.random.default_rng(3).standard_normal((17, 40))
MATRIX[MATRIX < 1] = 0


def test_few_different_rows_are_made_dense_at_a_time(monkeypatch):
    rows = row_matrix(sp.csr_matrix(MATRIX))
    monkeypatch.setattr("glnn.graph.rows.block_bytes_of", lambda device, on_host=0: 8 * 40 * 2)
    i, j = (torch.from_numpy(ends) for ends in np.random.default_rng(2).integers(0, 17, (2, 60)))
    assert_close(rows.dots(rows, i, j), torch.from_numpy((MATRIX[i] * MATRIX[j]).sum(1)))


def test_one_column_is_multiplied_by_the_stored_entries():
    rows = row_matrix(sp.csr_matrix(MATRIX))
    assert not rows.is_thin
    y = torch.arange(40.0, dtype=torch.float64)
    assert_close(rows.times(y[:, None])[:, 0], torch.from_numpy(MATRIX) @ y)


def test_entries_of_rows_are_found_in_order():
    rows = row_matrix(sp.csr_matrix(MATRIX))
    place, lengths = rows.entries_of(torch.tensor([5, 2, 2]))
    expected = [np.flatnonzero(MATRIX[k]) for k in (5, 2, 2)]
    assert lengths.tolist() == [len(part) for part in expected]
    assert rows.columns[place].tolist() == np.concatenate(expected).tolist()


# --- dense_rows

DENSE_ROWS_ROWS = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0]])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.csc_matrix, sp.coo_array])
@pytest.mark.parametrize("rows", [DENSE_ROWS_ROWS, DENSE_ROWS_ROWS + 1, DENSE_ROWS_ROWS[:0]])
def test_an_array_has_the_entries_of_the_matrix(form, rows):
    np.testing.assert_array_equal(dense_rows(form(rows)), rows)


def test_entries_that_are_all_stored_are_not_copied():
    full = sp.csr_matrix(DENSE_ROWS_ROWS + 1)
    assert np.shares_memory(dense_rows(full), full.data)


def test_entries_out_of_order_or_twice_are_put_in_their_places():
    swapped = sp.csr_matrix(([2.0, 1.0], [1, 0], [0, 2]), shape=(1, 2))
    doubled = sp.csr_matrix(([2.0, 1.0], [1, 1], [0, 2]), shape=(1, 2))
    assert dense_rows(swapped).tolist() == [[1.0, 2.0]]
    assert dense_rows(doubled).tolist() == [[0.0, 3.0]]
