import pytest
import torch

from glnn.graph import SparseAdjacency
from glnn.parallel.graph_rows import GraphRows
from glnn.peers import Partition


@pytest.mark.parametrize("size", [1, 2, 4])
def test_products_and_gradients_are_those_of_the_whole_graph_to_the_bit(symmetric, together, size):
    n_nodes = symmetric.shape[0]
    x = torch.randn(n_nodes, 20, generator=torch.Generator().manual_seed(0), requires_grad=True)
    whole = SparseAdjacency.from_scipy(symmetric, dtype=torch.float32)
    expected = whole @ x
    expected.square().sum().backward()

    def work(peers):
        part = Partition(n_nodes, peers)
        rows = GraphRows(part, symmetric[part.rows])
        own = x.detach()[part.rows].clone().requires_grad_()
        product = rows @ own
        product.square().sum().backward()
        assert rows.n_nodes == part.n_rows
        return product.detach(), own.grad, rows.row_sums()

    products, gradients, sums = (torch.cat(parts) for parts in zip(*together(size, work)))
    assert torch.equal(products, expected.detach())
    assert torch.equal(gradients, x.grad)
    assert torch.equal(sums, whole.row_sums())


def test_what_arrives_takes_no_more_room_than_the_rows(symmetric, together):
    width = 64

    def work(peers):
        part = Partition(symmetric.shape[0], peers)
        rows = GraphRows(part, symmetric[part.rows])
        sizes = []
        arrived = rows._arrived
        rows._arrived = lambda x: sizes.append(arrived(x).numel()) or arrived(x)
        rows.product(torch.ones(part.n_rows, width))
        return max(sizes) <= 1.2 * part.n_rows * width

    assert all(together(4, work))
