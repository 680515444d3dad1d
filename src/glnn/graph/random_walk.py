"""The random walk over a graph: each node takes the mean of its neighbours."""

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.base import GraphOperator
from glnn.graph.graph_rows import GraphRows
from glnn.peers import Partition


class RandomWalk(GraphOperator):
    r"""The matrix :math:`P = D^{-1} A` of a symmetric graph; a node without links has a zero row.

    Parameters
    ----------
    adj
        The graph, or the rows of it that are here.
    degree
        Its row sums.

    Examples
    --------
    >>> path = sp.csr_matrix(np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    >>> RandomWalk.of(path) @ torch.tensor([[1.0], [0.0], [3.0]])
    tensor([[0.],
            [2.],
            [0.]])
    """

    def __init__(self, adj: GraphOperator, degree: Float[Tensor, "n"]) -> None:
        self._adj = adj
        self._share = torch.where(degree > 0, 1 / degree.clamp_min(1e-30), 0.0)[:, None]

    @classmethod
    def of(
        cls,
        block: sp.csr_matrix,
        partition: Partition | None = None,
        *,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> "RandomWalk":
        """Take the rows of a symmetric graph that are here."""
        adj = GraphRows.of(block, partition, device=device, dtype=dtype)
        return cls(adj, adj.row_sums())

    @property
    def n_nodes(self) -> int:  # noqa: D102
        return self._adj.n_nodes

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return (self._adj @ x) * self._share


def without_loops(block: sp.csr_matrix, first_row: int = 0) -> sp.csr_matrix:
    """Return the rows of a graph from ``first_row`` on without their loops, sorted.

    They may be the same matrix.

    Examples
    --------
    >>> without_loops(sp.csr_matrix(np.array([[2.0, 1.0], [1.0, 0.0]]))).toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    rows = np.repeat(np.arange(block.shape[0], dtype=block.indices.dtype), np.diff(block.indptr))
    keep = rows != block.indices - first_row
    if keep.all() and block.has_canonical_format:
        return block
    coo = (block.data[keep], (rows[keep], block.indices[keep]))
    kept = sp.csr_matrix(coo, shape=block.shape)
    kept.sort_indices()
    return kept


def with_loops(block: sp.csr_matrix, first_row: int = 0) -> sp.csr_matrix:
    """Return the rows of a graph from ``first_row`` on with a loop of weight 1 each, sorted.

    Examples
    --------
    >>> with_loops(sp.csr_matrix(np.array([[2.0, 1.0], [1.0, 0.0]]))).toarray()
    array([[1., 1.],
           [1., 1.]])
    """
    loops = sp.eye(*block.shape, k=first_row, format="csr")
    both = sp.csr_matrix(without_loops(block, first_row) + loops)
    both.sort_indices()
    return both


def walk_matrix(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """Return :math:`D^{-1} A` as a matrix.

    Examples
    --------
    >>> walk_matrix(sp.csr_matrix(np.array([[0.0, 2.0], [2.0, 2.0]]))).toarray()
    array([[0. , 1. ],
           [0.5, 0.5]])
    """
    degree = np.asarray(adjacency.sum(1), dtype=np.float64).ravel()
    share = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    return sp.csr_matrix(sp.diags(share) @ adjacency)
