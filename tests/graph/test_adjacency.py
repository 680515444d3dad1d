import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from glnn.exceptions import InputError
from glnn.graph import Adjacency, DenseAdjacency, GraphOperator, SparseAdjacency

# Interface


@pytest.mark.parametrize("contract", [Adjacency, GraphOperator])
def test_a_contract_alone_is_not_a_graph(contract):
    with pytest.raises(TypeError, match="abstract"):
        contract()


def test_every_storage_is_what_a_network_needs_of_a_graph():
    assert issubclass(Adjacency, GraphOperator)


def test_row_sums_and_trace_follow_from_product_and_entries(rng):
    matrix = torch.rand(4, 4, generator=rng, dtype=torch.float64)
    adj = DenseAdjacency(matrix)
    torch.testing.assert_close(Adjacency.row_sums(adj), matrix.sum(1))
    torch.testing.assert_close(Adjacency.trace(adj), matrix.trace())


# Dense storage


def test_entries_are_listed_row_by_row():
    adj = DenseAdjacency(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    listed = zip(adj.rows().tolist(), adj.columns().tolist(), adj.values().tolist(), strict=True)
    assert list(listed) == [(0, 0, 1.0), (0, 1, 2.0), (1, 0, 3.0), (1, 1, 4.0)]


def test_each_of_the_two_entries_of_a_pair_has_its_own_gradient():
    matrix = torch.zeros(2, 2, requires_grad=True)
    x = torch.tensor([[1.0], [2.0]])
    (DenseAdjacency(matrix) @ x)[0].sum().backward()
    assert matrix.grad.tolist() == [[1.0, 2.0], [0.0, 0.0]]


def test_asymmetry_counts_each_pair_twice():
    assert DenseAdjacency(torch.tensor([[5.0, 1.0], [4.0, 0.0]])).asymmetry() == 2 * 3.0**2


def test_the_gradient_of_asymmetry_agrees_with_finite_differences(rng):
    matrix = torch.rand(4, 4, generator=rng, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda m: DenseAdjacency(m).asymmetry(), (matrix,))


# Sparse storage


def random_symmetric(n_nodes, seed=0):
    upper = np.triu(sp.random(n_nodes, n_nodes, 0.4, rng=np.random.default_rng(seed)).toarray())
    return sp.csr_matrix(upper + np.triu(upper, 1).T)


def test_scipy_comes_back_as_it_went_in():
    matrix = random_symmetric(9)
    back = SparseAdjacency.from_scipy(matrix).to_scipy()
    assert np.array_equal(back.toarray(), matrix.toarray())
    assert back.has_canonical_format


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil"])
def test_any_scipy_format_gives_the_same_pairs(kind):
    matrix = random_symmetric(6)
    for made in (matrix.asformat(kind), sp.csr_array(matrix).asformat(kind)):
        assert torch.equal(
            SparseAdjacency.from_scipy(made).to_dense(), torch.from_numpy(matrix.toarray())
        )


def test_entries_listed_twice_are_added_as_scipy_does():
    twice = sp.coo_matrix(([1.0, 2.0, 1.0, 2.0], ([0, 0, 1, 1], [1, 1, 0, 0])), shape=(2, 2))
    assert SparseAdjacency.from_scipy(twice).values().tolist() == [3.0]


def test_a_graph_without_edges_comes_back_empty_and_multiplies_to_zero():
    adj = SparseAdjacency.from_scipy(sp.csr_matrix((3, 3)))
    assert adj.to_scipy().nnz == 0
    assert torch.equal(adj @ torch.ones(3, 2, dtype=torch.float64), torch.zeros(3, 2).double())


def test_the_asked_precision_is_that_of_the_values():
    adj = SparseAdjacency.from_scipy(random_symmetric(4), dtype=torch.float32)
    assert adj.values().dtype == torch.float32


@pytest.mark.parametrize(
    ("rows", "columns"),
    [([1], [0]), ([0], [3]), ([-1], [1])],
    ids=["i after j", "j too large", "negative"],
)
def test_a_pair_out_of_place_is_refused_in_one_line(rows, columns):
    with pytest.raises(InputError, match=r"0 <= i <= j < 3; sort each pair\.$"):
        SparseAdjacency(3, torch.tensor(rows), torch.tensor(columns), torch.ones(1))


@pytest.mark.parametrize(("rows", "columns"), [([0, 0], [1, 1]), ([1, 0], [2, 1])])
def test_repeated_or_unordered_pairs_are_refused_in_one_line(rows, columns):
    with pytest.raises(InputError, match=r"once each, in increasing order\.$"):
        SparseAdjacency(3, torch.tensor(rows), torch.tensor(columns), torch.ones(2))


def test_the_gradient_of_a_pair_is_the_sum_of_the_dense_gradient_over_both_entries(rng):
    adj = SparseAdjacency.from_scipy(random_symmetric(7))
    values = adj.values().clone().requires_grad_()
    matrix = adj.to_dense().clone().requires_grad_()
    x = torch.randn(7, 3, generator=rng, dtype=torch.float64)
    (adj.with_values(values) @ x).pow(3).sum().backward()
    (DenseAdjacency(matrix) @ x).pow(3).sum().backward()
    both = matrix.grad + matrix.grad.T - torch.diag(matrix.grad.diagonal())
    assert_close(values.grad, both[adj.rows(), adj.columns()])


def test_other_values_on_the_same_pairs_equal_a_graph_built_anew(rng):
    adj = SparseAdjacency.from_scipy(random_symmetric(6))
    values = torch.rand(len(adj.values()), generator=rng, dtype=torch.float64)
    anew = SparseAdjacency(6, adj.rows(), adj.columns(), values)
    before = adj.to_dense()
    x = torch.randn(6, 2, generator=rng, dtype=torch.float64)
    assert torch.equal(adj.with_values(values) @ x, anew @ x)
    assert torch.equal(adj.to_dense(), before)


def test_signals_laid_out_by_column_give_the_same_product(rng):
    adj = SparseAdjacency.from_scipy(random_symmetric(6))
    x = torch.randn(2, 6, generator=rng, dtype=torch.float64).T
    assert_close(adj @ x, adj @ x.contiguous())


def test_moving_to_the_device_it_is_on_returns_the_graph_itself():
    adj = SparseAdjacency.from_scipy(random_symmetric(4))
    assert adj.to("cpu") is adj


@pytest.mark.gpu
def test_a_graph_on_the_gpu_has_the_same_product_and_gradient(rng):
    adj = SparseAdjacency.from_scipy(random_symmetric(7))
    x = torch.randn(7, 3, generator=rng, dtype=torch.float64)
    found = []
    for device in ("cpu", "cuda"):
        values = adj.values().to(device).requires_grad_()
        product = adj.to(device).with_values(values) @ x.to(device)
        (grad,) = torch.autograd.grad(product.pow(3).sum(), values)
        found.append((product.cpu(), grad.cpu()))
    assert_close(found[0], found[1])
