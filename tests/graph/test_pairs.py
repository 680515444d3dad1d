import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.graph.pairs import Pairs, PairValues, pair_keys, sorted_distinct
from glnn.graph.spread import pair_owners
from glnn.peers import ALONE, Partition


def alone(n):
    return Partition(n, ALONE)


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


def test_contains_finds_exactly_the_stored_keys():
    generator = torch.Generator().manual_seed(0)
    pairs = Pairs.union(alone(9), [tuple(torch.randint(0, 9, (2, 12), generator=generator))])
    keys = pair_keys(9, *torch.triu_indices(9, 9))
    assert torch.equal(pairs.contains(keys), torch.isin(keys, pairs.keys))
    assert not Pairs.union(alone(9), [(keys[:0], keys[:0])]).contains(keys).any()


def test_distinct_keys_are_those_of_torch():
    keys = torch.randint(0, 50, (70,), generator=torch.Generator().manual_seed(0))
    assert torch.equal(sorted_distinct(keys), torch.unique(keys))


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_values_make_a_symmetric_matrix_whose_rows_are_spread(size, together):
    matrix = symmetric(30, np.random.default_rng(0))

    def work(peers):
        part = Partition(30, peers)
        own = PairValues.of_rows(part, matrix[part.rows])
        assert (pair_owners(part, own.pairs.i, own.pairs.j) == peers.rank).all()
        return own.pairs.to_csr(own.values)

    blocks = together(size, work)
    assert all(block.has_sorted_indices for block in blocks)
    assert (sp.vstack(blocks) != matrix).nnz == 0


def test_a_matrix_with_unsorted_and_doubled_entries_is_taken_as_what_it_means():
    loose = sp.csr_matrix(([2.0, 1.0, 1.0, 2.0, 2.0], [1, 0, 0, 0, 2], [0, 3, 4, 5]), shape=(3, 3))
    found = PairValues.of_rows(alone(3), loose)
    assert (found.pairs.i.tolist(), found.pairs.j.tolist()) == ([0, 0, 2], [0, 1, 2])
    assert found.values.tolist() == [2.0, 2.0, 2.0]
    assert loose.nnz == 5  # the caller's matrix is as it was


def test_zeros_are_not_stored_in_the_matrix():
    pairs = Pairs.union(alone(3), [ends([0, 1], [1, 2])])
    assert pairs.to_csr(torch.tensor([0.0, 2.0], dtype=torch.float64)).nnz == 2


@pytest.mark.parametrize("size", [1, 3])
def test_an_end_of_each_pair_is_here_and_the_other_where_it_is_said_to_be(size, together):
    matrix = symmetric(30, np.random.default_rng(1))

    def work(peers):
        part = Partition(30, peers)
        pairs = PairValues.of_rows(part, matrix[part.rows]).pairs
        seen = torch.zeros(len(pairs))
        for rank, (mine, far, near) in enumerate(pairs.meetings):
            place = torch.arange(len(pairs)) if mine is None else mine
            both = torch.stack([near + part.start, far + int(part.bounds[rank])])
            expected = torch.stack([pairs.i[place], pairs.j[place]])
            assert torch.equal(both.sort(0).values, expected)
            seen[place] += 1
        assert (seen == 1).all()

    together(size, work)


def test_sums_of_sparse_matrices_are_those_of_scipy():
    rng = np.random.default_rng(2)
    first, second = symmetric(12, rng), symmetric(12, rng)
    one, other = (PairValues.of_rows(alone(12), m) for m in (first, second))
    total = one + other.times(2)
    assert np.allclose(total.pairs.to_csr(total.values).toarray(), (first + 2 * second).toarray())


def test_selected_pairs_and_their_graph():
    pairs = Pairs.union(alone(3), [ends([0, 1, 2], [1, 2, 2])])
    apart = pairs.select(pairs.i != pairs.j)
    assert len(apart) == 2
    assert apart.adjacency(torch.ones(2)).row_sums().tolist() == [1.0, 2.0, 1.0]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_sweep_shows_each_pair_to_one_process(size, together):
    i, j = torch.triu_indices(9, 9)

    def work(peers):
        part = Partition(9, peers)
        own = pair_owners(part, i, j) == peers.rank
        return Pairs(part, i[own], j[own]).where_swept().keys.tolist()

    found = together(size, work)
    assert sorted(key for keys in found for key in keys) == (9 * i + j).tolist()
