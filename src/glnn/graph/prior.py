"""The prior graph G, made from a given graph; the learned graph is kept close to it.

With several processes, each has its rows of both graphs.
"""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_choice, check_number
from glnn.distributed import SINGLE_PROCESS, Partition, Peers

PriorKind = Literal["binary", "symmetric", "renormalized", "pagerank"]


def binary(adjacency: sp.csr_matrix, peers: Peers = SINGLE_PROCESS) -> sp.csr_matrix:
    """Return the graph with all weights set to one: the paper's ground-truth matrix."""
    ones = np.ones_like(adjacency.data, dtype=np.float64)
    arrays = (ones, adjacency.indices, adjacency.indptr)
    return sp.csr_matrix(arrays, shape=adjacency.shape, copy=True)


def symmetric(adjacency: sp.csr_matrix, peers: Peers = SINGLE_PROCESS) -> sp.csr_matrix:
    r"""Return :math:`D^{-1/2} A D^{-1/2}`; rows of isolated nodes stay empty."""
    return normalize_adjacency(adjacency, peers)


def renormalized(adjacency: sp.csr_matrix, peers: Peers = SINGLE_PROCESS) -> sp.csr_matrix:
    r"""Return :math:`\tilde D^{-1/2} (A + I) \tilde D^{-1/2}`, the propagation matrix of a GCN."""
    return normalize_adjacency(sp.csr_matrix(adjacency + _identity(adjacency, peers)), peers)


def pagerank(
    adjacency: sp.csr_matrix,
    peers: Peers = SINGLE_PROCESS,
    *,
    teleport: float = 0.15,
    n_keep: int = 32,
    n_steps: int = 30,
) -> sp.csr_matrix:
    r"""Return :math:`\gamma \sum_k (1-\gamma)^k T^k`, with :math:`T` the renormalised matrix.

    The result is sparse: each row of it keeps its ``n_keep`` largest entries, and powers keep four
    times as many. It is averaged with its transpose and normalised.
    """
    check_number("teleport", teleport, low=0, high=1, open_low=True)
    partition = Partition(adjacency.shape[1], peers)
    step = renormalized(adjacency, peers)
    power = _identity(adjacency, peers)
    total = teleport * power
    for k in range(1, n_steps + 1):
        power = _keep_largest((1 - teleport) * _matmul_rows(power, step, partition), 4 * n_keep)
        total = total + teleport * power
        if (1 - teleport) ** k < 1e-4:
            break
    kept = _keep_largest(sp.csr_matrix(total), n_keep)
    return normalize_adjacency(sp.csr_matrix((kept + transpose_rows(kept, partition)) / 2), peers)


def normalize_adjacency(adjacency: sp.csr_matrix, peers: Peers = SINGLE_PROCESS) -> sp.csr_matrix:
    r"""Return :math:`D^{-1/2} A D^{-1/2}`, with :math:`0^{-1/2} = 0`."""
    own = inverse_sqrt(np.asarray(adjacency.sum(1), dtype=np.float64).ravel())
    root = own if peers.size == 1 else Partition(adjacency.shape[1], peers).all_gather_rows(own)
    result = sp.csr_matrix(adjacency, dtype=np.float64, copy=True)
    result.sum_duplicates()
    result.data *= np.repeat(own, np.diff(result.indptr))
    result.data *= root[result.indices]
    result.eliminate_zeros()
    return result


def _identity(adjacency: sp.csr_matrix, peers: Peers) -> sp.csr_matrix:
    """Return this process's rows of the identity."""
    first = Partition(adjacency.shape[1], peers).start
    return sp.eye(*adjacency.shape, k=first, format="csr")


def _matmul_rows(left: sp.csr_matrix, right: sp.csr_matrix, partition: Partition) -> sp.csr_matrix:
    """Return this process's rows of the product of two matrices with sharded rows."""
    total = sp.csr_matrix(left.shape)
    for rank in range(partition.peers.size):
        columns = slice(int(partition.bounds[rank]), int(partition.bounds[rank + 1]))
        total = total + left[:, columns] @ partition.broadcast_block(right, rank)
    return sp.csr_matrix(total)


def transpose_rows(matrix: sp.csr_matrix, partition: Partition) -> sp.csr_matrix:
    """Return this process's rows of the transpose of a matrix with sharded rows."""
    if partition.peers.size == 1:
        return sp.csr_matrix(matrix.T)
    coo = sp.coo_matrix(matrix)
    owner = partition.owner(coo.col.astype(np.int64))
    parts = (coo.col.astype(np.int64), coo.row.astype(np.int64) + partition.start, coo.data)
    ranks = range(partition.peers.size)
    arrived = [
        np.concatenate(partition.peers.all_to_all([part[owner == rank] for rank in ranks]))
        for part in parts
    ]
    places = (arrived[0] - partition.start, arrived[1])
    return sp.csr_matrix((arrived[2], places), shape=matrix.shape)


def inverse_sqrt(degree: np.ndarray) -> np.ndarray:
    """Return :math:`d^{-1/2}` of each degree, 0 where it is 0."""
    root = np.zeros_like(degree)
    root[degree > 0] = degree[degree > 0] ** -0.5
    return root


def _keep_largest(matrix: sp.csr_matrix, n_keep: int) -> sp.csr_matrix:
    """Keep the ``n_keep`` largest entries of each row; of equal ones, the lower column."""
    matrix = sp.csr_matrix(matrix)
    matrix.sort_indices()
    lengths = np.diff(matrix.indptr)
    rows = np.repeat(np.arange(matrix.shape[0]), lengths)
    order = np.lexsort((matrix.indices, -matrix.data, rows))
    rank = np.arange(len(order)) - np.repeat(matrix.indptr[:-1], lengths)
    kept = order[rank < n_keep]
    entries = (matrix.data[kept], (rows[kept], matrix.indices[kept]))
    return sp.csr_matrix(entries, shape=matrix.shape)


PRIORS: dict[str, Callable[[sp.csr_matrix, Peers], sp.csr_matrix]] = dict(
    zip(get_args(PriorKind), (binary, symmetric, renormalized, pagerank))
)


def prior_graph(
    adjacency: sp.csr_matrix, kind: PriorKind = "renormalized", peers: Peers = SINGLE_PROCESS
) -> sp.csr_matrix:
    """Return the prior graph of the named kind, symmetric CSR in float64.

    Parameters
    ----------
    adjacency
        The given graph; with several processes, the rows of this one.
    kind
        ``binary``, ``symmetric``, ``renormalized`` (default) or ``pagerank``.
    peers
        The processes of one fit.

    Examples
    --------
    >>> prior_graph(sp.csr_matrix(np.array([[0.0, 3.0], [3.0, 0.0]])), "binary").toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    result = PRIORS[check_choice("prior", kind, PRIORS)](sp.csr_matrix(adjacency), peers)
    result.sort_indices()
    return result
