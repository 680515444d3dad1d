import numpy as np
import pytest
import scipy.sparse as sp

from glnn.exceptions import InputError
from glnn.peers import ALONE, Partition, Peers


def ranks(size):
    parts = []
    for rank in range(size):
        peers = Peers()
        peers.rank, peers.size = rank, size
        parts.append(peers)
    return parts


@pytest.mark.parametrize("n_nodes", [4, 17, 83, 1000])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_every_row_has_one_owner(n_nodes, size):
    parts = [Partition(n_nodes, peers) for peers in ranks(size)]
    nodes = np.arange(n_nodes)
    assert sum(part.has(nodes).astype(int) for part in parts).tolist() == [1] * n_nodes
    assert sum(part.n_rows for part in parts) == n_nodes
    for rank, part in enumerate(parts):
        assert (part.owner(nodes[part.rows]) == rank).all()


def test_more_processes_than_rows_are_refused():
    with pytest.raises(InputError, match="Start fewer processes"):
        Partition(3, ranks(4)[0])


def test_alone_the_block_is_the_whole():
    part = Partition(5, ALONE)
    matrix = np.arange(10.0).reshape(5, 2)
    assert part.rows == slice(0, 5)
    assert (part.everyone(matrix[:, 0]) == matrix[:, 0]).all()
    assert (part.collected(matrix) == matrix).all()
    assert (part.collected(sp.csr_matrix(matrix)).toarray() == matrix).all()
    assert part.counts(7).tolist() == [7]
