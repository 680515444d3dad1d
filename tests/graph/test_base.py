import pytest
import torch

from glnn.graph import Adjacency, DenseAdjacency


def test_the_contract_alone_is_not_a_storage():
    with pytest.raises(TypeError, match="abstract"):
        Adjacency()


def test_row_sums_and_trace_follow_from_product_and_entries(rng):
    matrix = torch.rand(4, 4, generator=rng, dtype=torch.float64)
    adj = DenseAdjacency(matrix)
    torch.testing.assert_close(Adjacency.row_sums(adj), matrix.sum(1))
    torch.testing.assert_close(Adjacency.trace(adj), matrix.trace())
