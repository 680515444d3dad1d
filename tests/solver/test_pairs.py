import numpy as np
import scipy.sparse as sp

from glnn.solver.pairs import Pairs, pair_keys, sorted_distinct, upper_entries


def test_union_names_each_pair_once_whatever_its_direction():
    pairs = Pairs.union(4, [(np.array([3, 1]), np.array([1, 3])), (np.array([2]), np.array([2]))])
    assert (pairs.i.tolist(), pairs.j.tolist()) == ([1, 2], [3, 2])
    assert pairs.counts.tolist() == [2.0, 1.0]


def test_values_make_a_symmetric_matrix_and_come_back(rng):
    dense = np.triu(rng.random((6, 6)) * (rng.random((6, 6)) < 0.5))
    pairs = Pairs.union(6, [np.nonzero(np.ones((6, 6)))])
    matrix = sp.csr_matrix(dense + np.triu(dense, 1).T)
    back = pairs.to_csr(pairs.values_of(matrix))
    assert (back != matrix).nnz == 0
    assert back.nnz == np.count_nonzero(back.toarray())


def test_contains_finds_exactly_the_stored_keys(rng):
    pairs = Pairs.union(9, [(rng.integers(0, 9, 12), rng.integers(0, 9, 12))])
    i, j = np.triu_indices(9)
    keys = pair_keys(9, i, j)
    assert (pairs.contains(keys) == np.isin(keys, pairs.keys)).all()
    assert not Pairs.union(9, []).contains(keys).any()


def test_upper_entries_are_those_on_and_above_the_diagonal():
    rows, columns, values = upper_entries(sp.csr_matrix(np.array([[1.0, 2.0], [3.0, 4.0]])))
    assert (rows.tolist(), columns.tolist(), values.tolist()) == ([0, 0, 1], [0, 1, 1], [1, 2, 4])


def test_distinct_keys_are_those_of_numpy(rng):
    parts = [rng.integers(0, 50, size) for size in (0, 30, 40)]
    np.testing.assert_array_equal(sorted_distinct(parts), np.unique(np.concatenate(parts)))
    assert sorted_distinct([np.empty(0, np.int64)]).size == 0
