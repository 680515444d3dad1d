import pytest
import torch

from glnn.graph import Adjacency, DenseAdjacency, GraphOperator


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
