import pytest
import torch
from torch.testing import assert_close

from glnn.graph.csr import CsrPattern

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
