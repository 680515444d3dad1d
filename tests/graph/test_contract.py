"""Tests that every storage of a graph must pass: results equal those of the full matrix."""

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck

from glnn.distributed import Partition
from glnn.graph import DenseAdjacency, SparseAdjacency
from glnn.graph.pairs import Pairs


def dense(n_nodes, rows, columns, values):
    zeros = torch.zeros(n_nodes, n_nodes, dtype=values.dtype)
    upper = zeros.index_put((rows, columns), values)
    return DenseAdjacency(upper + upper.T - torch.diag(upper.diagonal()))


def sparse(n_nodes, rows, columns, values):
    return SparseAdjacency(Pairs(Partition(n_nodes), rows, columns), values)


every_storage = pytest.mark.parametrize("make", [dense, sparse])


@st.composite
def graphs(draw):
    """A symmetric graph as sorted pairs i <= j with weights, and the same as a list of rows."""
    n_nodes = draw(st.integers(1, 6))
    pairs = [(i, j) for i in range(n_nodes) for j in range(i, n_nodes)]
    chosen = sorted(draw(st.sets(st.sampled_from(pairs))))
    weights = draw(
        st.lists(st.integers(-8, 8), min_size=len(chosen), max_size=len(chosen))
    )  # eighths: every sum below is exact
    matrix = torch.zeros(n_nodes, n_nodes, dtype=torch.float64)
    for (i, j), weight in zip(chosen, weights, strict=True):
        matrix[i, j] = matrix[j, i] = weight / 8
    index = torch.tensor(chosen, dtype=torch.int64).reshape(-1, 2)
    values = torch.tensor(weights, dtype=torch.float64) / 8
    return n_nodes, index[:, 0], index[:, 1], values, matrix


def random_pairs(rng, n_nodes=5):
    rows, columns = torch.triu_indices(n_nodes, n_nodes)
    kept = torch.rand(len(rows), generator=rng) < 0.6
    rows, columns = rows[kept], columns[kept]
    values = torch.rand(len(rows), generator=rng, dtype=torch.float64) + 0.1
    return n_nodes, rows, columns, values


@every_storage
@given(graph=graphs())
@settings(max_examples=40, deadline=None, derandomize=True, database=None)
def test_every_number_is_that_of_the_full_matrix(make, graph):
    *stored, matrix = graph
    adj, n_nodes = make(*stored), len(matrix)
    x = torch.arange(2.0 * n_nodes, dtype=torch.float64).reshape(-1, 2)
    assert torch.equal(adj.to_dense(), matrix)
    assert torch.equal(adj @ x, matrix @ x)
    assert torch.equal(adj.row_sums(), matrix.sum(1))
    assert torch.equal(adj.trace(), matrix.trace())
    rows, columns = torch.cartesian_prod(*[torch.arange(n_nodes)] * 2).reshape(-1, 2).T
    assert torch.equal(adj.entries(rows, columns), matrix[rows, columns])


@every_storage
def test_gradients_to_the_signals_agree_with_finite_differences(make, rng):
    adj = make(*random_pairs(rng))
    x = torch.randn(len(adj.row_sums()), 3, generator=rng, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda x: adj @ x + adj.sum_of_powers(x, 3), (x,))


def random_symmetric(n_nodes, seed=0):
    upper = np.triu(sp.random(n_nodes, n_nodes, 0.4, rng=np.random.default_rng(seed)).toarray())
    return sp.csr_matrix(upper + np.triu(upper, 1).T)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil"])
def test_any_scipy_format_gives_the_same_pairs(kind):
    matrix = random_symmetric(6)
    for made in (matrix.asformat(kind), sp.csr_array(matrix).asformat(kind)):
        assert torch.equal(
            SparseAdjacency.from_scipy(made).to_dense(), torch.from_numpy(matrix.toarray())
        )
