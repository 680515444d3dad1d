import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph.csr import CsrMatrix, CsrPattern, added, product

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
