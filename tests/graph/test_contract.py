"""Tests that every storage of a graph must pass: results equal those of the full matrix."""

import pytest
import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.testing import assert_close

from glnn.graph import Adjacency, DenseAdjacency, SparseAdjacency


def dense(n_nodes, rows, columns, values):
    zeros = torch.zeros(n_nodes, n_nodes, dtype=values.dtype)
    upper = zeros.index_put((rows, columns), values)
    return DenseAdjacency(upper + upper.T - torch.diag(upper.diagonal()))


MAKERS = {DenseAdjacency: dense, SparseAdjacency: SparseAdjacency}
every_storage = pytest.mark.parametrize("make", MAKERS.values(), ids=lambda make: make.__name__)


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


def exact(check):
    return settings(max_examples=40, deadline=None, derandomize=True, database=None)(check)


def random_pairs(rng, n_nodes=5):
    rows, columns = torch.triu_indices(n_nodes, n_nodes)
    kept = torch.rand(len(rows), generator=rng) < 0.6
    rows, columns = rows[kept], columns[kept]
    values = torch.rand(len(rows), generator=rng, dtype=torch.float64) + 0.1
    return n_nodes, rows, columns, values.requires_grad_()


@every_storage
def test_gradients_of_the_product_to_weights_and_signals_agree_with_finite_differences(make, rng):
    n_nodes, rows, columns, values = random_pairs(rng)
    x = torch.randn(n_nodes, 3, generator=rng, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda v, x: make(n_nodes, rows, columns, v) @ x, (values, x))


@every_storage
@pytest.mark.parametrize(
    "reduction",
    [Adjacency.row_sums, Adjacency.trace, Adjacency.values, Adjacency.asymmetry],
    ids=lambda reduction: reduction.__name__,
)
def test_gradients_of_the_reductions_agree_with_finite_differences(make, reduction, rng):
    n_nodes, rows, columns, values = random_pairs(rng)
    name = reduction.__name__
    assert gradcheck(lambda v: getattr(make(n_nodes, rows, columns, v), name)(), (values,))


@every_storage
def test_gradients_of_entries_agree_with_finite_differences(make, rng):
    n_nodes, rows, columns, values = random_pairs(rng)
    i, j = torch.cartesian_prod(torch.arange(n_nodes), torch.arange(n_nodes)).T
    assert gradcheck(lambda v: make(n_nodes, rows, columns, v).entries(i, j), (values,))


@every_storage
def test_a_chain_of_products_has_the_gradient_of_the_dense_power(make, rng):
    n_nodes, rows, columns, values = random_pairs(rng)
    x = torch.randn(n_nodes, 2, generator=rng, dtype=torch.float64)
    adj, oracle = make(n_nodes, rows, columns, values), dense(n_nodes, rows, columns, values)
    (ours,) = torch.autograd.grad((adj @ (adj @ (adj @ x))).square().sum(), values)
    power = torch.linalg.matrix_power(oracle.to_dense(), 3)
    (theirs,) = torch.autograd.grad((power @ x).square().sum(), values)
    assert_close(ours, theirs)


@every_storage
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_every_result_has_the_precision_of_the_weights(make, dtype, rng):
    n_nodes, rows, columns, values = random_pairs(rng)
    adj = make(n_nodes, rows, columns, values.detach().to(dtype))
    results = [adj.values(), adj.counts(), adj.row_sums(), adj.trace(), adj.to_dense()]
    assert {result.dtype for result in results} == {dtype}
