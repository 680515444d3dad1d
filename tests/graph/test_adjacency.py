import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck
from torch.testing import assert_close

from glnn.graph import DenseAdjacency, SparseAdjacency

# Interface


# Dense storage


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


def test_the_gradient_of_a_pair_is_the_sum_of_the_dense_gradient_over_both_entries(rng):
    adj = SparseAdjacency.from_scipy(random_symmetric(7))
    values = adj.values().clone().requires_grad_()
    matrix = adj.to_dense().clone().requires_grad_()
    x = torch.randn(7, 3, generator=rng, dtype=torch.float64)
    (adj.with_values(values) @ x).pow(3).sum().backward()
    (DenseAdjacency(matrix) @ x).pow(3).sum().backward()
    both = matrix.grad + matrix.grad.T - torch.diag(matrix.grad.diagonal())
    assert_close(values.grad, both[adj.rows(), adj.columns()])


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
