import numpy as np
import scipy.sparse as sp
import torch

from glnn.solver.device_pairs import DeviceGraph, DevicePairs, device_keys, to_device
from glnn.solver.pairs import Pairs, upper_entries


def random_pairs(rng, n_nodes=30, n_drawn=120):
    ends = rng.integers(0, n_nodes, (2, n_drawn))
    host = Pairs.union(n_nodes, [tuple(ends)])
    return host, DevicePairs.union(
        n_nodes, [(torch.from_numpy(ends[0]), torch.from_numpy(ends[1]))]
    )


def test_the_pairs_are_those_of_the_host(rng):
    host, resident = random_pairs(rng)
    assert np.array_equal(resident.keys.numpy(), host.keys)
    assert np.array_equal(resident.counts.numpy(), host.counts)
    assert np.array_equal(resident.loops.numpy(), np.flatnonzero(host.i == host.j))
    back = resident.to_host()
    assert np.array_equal(back.i, host.i)
    assert np.array_equal(back.j, host.j)


def test_the_matrix_and_its_sums_are_those_of_the_host(rng):
    host, resident = random_pairs(rng)
    values = rng.random(len(host)) * (rng.random(len(host)) < 0.5)
    expected = host.to_csr(values)
    found = resident.compressed(torch.from_numpy(values))
    matrix = found.to_host()
    matrix.check_format(full_check=True)
    assert matrix.has_canonical_format
    assert np.array_equal(matrix.toarray(), expected.toarray())
    assert matrix.nnz == expected.nnz
    sums = np.asarray(expected.sum(1)).ravel()
    assert np.allclose(found.row_sums().numpy(), sums)
    assert np.isclose(float(found.trace()), expected.diagonal().sum())


def test_keys_find_their_pairs_and_others_do_not(rng):
    host, resident = random_pairs(rng)
    place, known = resident.places(torch.arange(900))
    assert np.array_equal(known.numpy(), host.contains(np.arange(900)))
    assert np.array_equal(resident.keys[place[known]].numpy(), host.keys)
    placed = resident.placed(torch.arange(900), torch.arange(900.0))
    assert np.array_equal(placed.numpy(), host.keys)


def test_no_pairs_at_all_are_allowed():
    nothing = torch.empty(0, dtype=torch.int64)
    empty = DevicePairs.union(3, [(nothing, nothing)])
    assert len(empty) == 0
    assert not empty.places(torch.arange(9))[1].any()
    assert empty.compressed(torch.empty(0).double()).to_host().nnz == 0


def test_a_matrix_comes_over_with_its_upper_triangle(rng):
    dense = np.triu(rng.random((8, 8)) * (rng.random((8, 8)) < 0.4))
    matrix = sp.csr_matrix(dense + dense.T)
    graph = DeviceGraph.of(matrix, "cpu")
    for found, expected in zip(graph.upper(), upper_entries(matrix)):
        assert np.array_equal(found.numpy(), expected)
    assert (graph.to_host() != matrix).nnz == 0


def test_keys_do_not_depend_on_the_direction():
    one, other = torch.tensor([1, 2]), torch.tensor([2, 0])
    assert device_keys(3, one, other).tolist() == device_keys(3, other, one).tolist() == [5, 2]


def test_an_array_that_may_not_be_written_is_copied():
    fixed = np.arange(3)
    fixed.flags.writeable = False
    assert to_device(fixed, "cpu").tolist() == [0, 1, 2]
