import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph import SparseAdjacency
from glnn.graph.graph_rows import GraphRows, normalized_rows
from glnn.graph.prior import normalized
from glnn.peers import Partition, row_exchange


@pytest.fixture
def symmetric():
    """A random symmetric CSR matrix with loops, and some rows without entries."""
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((83, 83)) * (rng.random((83, 83)) < 0.08))
    dense[[5, 40], :] = dense[:, [5, 40]] = 0
    return sp.csr_matrix(dense + np.triu(dense, 1).T)


@pytest.mark.parametrize("at_once", [0, 2**24], ids=["few columns at a time", "all at once"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_products_and_gradients_are_those_of_the_whole_graph(
    symmetric, together, monkeypatch, size, at_once
):
    monkeypatch.setattr(row_exchange, "AT_ONCE", at_once)
    n_nodes = symmetric.shape[0]
    x = torch.randn(n_nodes, 20, generator=torch.Generator().manual_seed(0), requires_grad=True)
    whole = SparseAdjacency.from_scipy(symmetric, dtype=torch.float32)
    (whole @ x + 2 * whole.sum_of_powers(x, 3)).square().sum().backward()

    def work(peers):
        part = Partition(n_nodes, peers)
        rows = GraphRows.of(symmetric[part.rows], part)
        own = x.detach()[part.rows].clone().requires_grad_()
        product = rows @ own
        (product + 2 * rows.sum_of_powers(own, 3)).square().sum().backward()
        assert rows.n_nodes == part.n_rows
        return product.detach(), own.grad, rows.row_sums()

    products, gradients, sums = (torch.cat(parts) for parts in zip(*together(size, work)))
    assert_close(products, (whole @ x).detach())
    assert_close(gradients, x.grad)
    assert_close(sums, whole.row_sums())


def test_alone_a_product_has_the_bits_of_the_symmetric_storage(symmetric):
    x = torch.randn(83, 5, generator=torch.Generator().manual_seed(0))
    whole = SparseAdjacency.from_scipy(symmetric, dtype=torch.float32)
    assert torch.equal(GraphRows.of(symmetric) @ x, whole @ x)
    assert torch.equal(GraphRows.of(symmetric).sum_of_powers(x, 4), whole.sum_of_powers(x, 4))


def test_no_power_at_all_is_the_signal_itself(symmetric):
    x = torch.ones(83, 2)
    found = GraphRows.of(symmetric).sum_of_powers(x, 0)
    assert torch.equal(found, x)
    assert found is not x


@pytest.mark.parametrize("size", [1, 3])
def test_normalised_rows_are_those_of_the_whole_and_symmetric_to_the_bit(symmetric, together, size):
    def work(peers):
        part = Partition(83, peers)
        graph, adj_hat = normalized_rows(symmetric[part.rows], part, dtype=torch.float64)
        every = torch.eye(83, dtype=torch.float64)[part.rows]
        return graph @ every, adj_hat @ every

    graph, adj_hat = (torch.cat(parts).numpy() for parts in zip(*together(size, work)))
    np.testing.assert_array_equal(graph, symmetric.toarray())
    np.testing.assert_allclose(adj_hat, normalized(symmetric).toarray(), rtol=1e-14)
    np.testing.assert_array_equal(adj_hat, adj_hat.T)


def test_other_entries_keep_their_places(symmetric):
    rows = GraphRows.of(symmetric)
    doubled = rows.with_entries(2 * rows.entries)
    x = torch.ones(83, 1)
    assert torch.equal(doubled @ x, 2 * (rows @ x))
