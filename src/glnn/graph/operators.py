"""Graphs as operators on sharded signals, and spectral features of a graph."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Float64, Int
from sklearn.preprocessing import normalize
from torch import Tensor

from glnn.distributed import Partition, RowExchange
from glnn.graph.adjacency import GraphOperator
from glnn.graph.prior import inverse_sqrt
from glnn.graph.rows import CsrMatrix, differentiable_product, to_dense_array, to_device


class GraphRows(GraphOperator):
    r"""The rows :math:`A_p` of a symmetric matrix that process ``p`` has.

    For :math:`(A x)_p = A_p x` only those rows of :math:`x` are fetched for which :math:`A_p` has
    an entry. Since :math:`A^\top = A`, the gradient is the same product.
    """

    def __init__(self, matrix: CsrMatrix, exchange: RowExchange | None = None) -> None:
        self.matrix, self._exchange = matrix, exchange  # without an exchange, all rows are here

    @classmethod
    def of(
        cls,
        block: sp.csr_matrix,
        layout: Partition | None = None,
        *,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> "GraphRows":
        """Build from this process's rows, a sorted CSR matrix with N columns."""
        if layout is None or not layout.is_split:
            return cls(CsrMatrix.from_scipy(block, device, dtype))
        wanted, places = np.unique(block.indices, return_inverse=True)
        shape = (block.shape[0], len(wanted))
        block = sp.csr_matrix((block.data, places, block.indptr), shape=shape)
        return cls(CsrMatrix.from_scipy(block, device, dtype), RowExchange(layout, wanted, device))

    def row_sums(self) -> Float[Tensor, "n"]:
        """Return the sums of this process's rows."""
        ones = self.matrix.values.new_ones(self.matrix.n_columns, 1)
        return self.matrix.spmm(ones)[:, 0]

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        if x.requires_grad:
            return differentiable_product(x, self.__matmul__, self.__matmul__)
        if self._exchange is None:
            return self.matrix.spmm(x)
        return torch.cat([self.matrix.spmm(rows) for rows in self._exchange.fetch(x)], 1)


class PowerRows(GraphOperator):
    r"""Some rows of :math:`\sum_{k=0}^{K} A^k` of a symmetric matrix, dense.

    Signals that are needed at few nodes are propagated by one product, however many the steps are.
    """

    def __init__(self, rows: Float[Tensor, "r n"]) -> None:
        self._rows = rows

    @classmethod
    def of(
        cls, adj: GraphOperator, nodes: Int[Tensor, "r"], n_steps: int, n_nodes: int
    ) -> "PowerRows":
        """Propagate to these nodes; a row of the symmetric sum is one of its columns."""
        columns = torch.zeros(n_nodes, len(nodes), device=nodes.device)
        columns[nodes, torch.arange(len(nodes), device=nodes.device)] = 1.0
        return cls(adj.sum_of_powers(columns, n_steps).T.contiguous())

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "r d"]:
        return self._rows @ x

    def sum_of_powers(self, x: Float[Tensor, "n d"], n_steps: int) -> Float[Tensor, "r d"]:
        """Return the product; the number of steps is that of the rows."""
        return self @ x

    def sum_of_powers_transposed(  # noqa: D102
        self, x: Float[Tensor, "r d"], n_steps: int
    ) -> Float[Tensor, "n d"]:
        return self._rows.T @ x


def normalize_graph_rows(
    block: sp.csr_matrix, layout: Partition, **kind: Any
) -> tuple[GraphRows, GraphRows]:
    r"""Return a graph and :math:`D^{-1/2} A D^{-1/2}`, which share one pattern.

    Entries are scaled in an order such that :math:`\hat a_{ij} = \hat a_{ji}` to the last bit.
    ``kind`` is the device and the dtype, as in :meth:`GraphRows.of`.
    """
    graph = GraphRows.of(block, layout, **kind)
    device = graph.matrix.device
    root = to_device(inverse_sqrt(layout.row_sums(block)), device)
    columns, values = (to_device(part, device) for part in (block.indices, block.data))
    rows = graph.matrix.row_of_entries() + layout.start
    entries = values.double() * root.index_select(0, torch.minimum(rows, columns))
    entries *= root.index_select(0, torch.maximum(rows, columns))
    matrix = graph.matrix.with_values(entries.to(graph.matrix.dtype))
    return graph, GraphRows(matrix, graph._exchange)


class RandomWalk(GraphOperator):
    r"""The matrix :math:`P = D^{-1} A` of a symmetric graph; isolated nodes have a zero row.

    It is built from this process's rows of the graph, as :meth:`GraphRows.of` is.
    """

    def __init__(self, block: sp.csr_matrix, layout: Partition | None = None, **kind: Any) -> None:
        self._adj = GraphRows.of(block, layout, **kind)
        degree = self._adj.row_sums()
        self._inverse_degree = torch.where(degree > 0, 1 / degree.clamp_min(1e-30), 0.0)[:, None]

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return (self._adj @ x) * self._inverse_degree


def drop_loops(block: sp.csr_matrix, first_row: int = 0) -> sp.csr_matrix:
    """Return the rows of a graph from ``first_row`` on without loops, sorted; maybe itself."""
    entries = block.tocoo(copy=False)
    keep = entries.row + first_row != entries.col
    if keep.all() and block.has_canonical_format:
        return block
    kept = (entries.data[keep], (entries.row[keep], entries.col[keep]))
    return sp.csr_matrix(kept, shape=block.shape)


def add_loops(block: sp.csr_matrix, first_row: int = 0) -> sp.csr_matrix:
    """Return the rows of a graph from ``first_row`` on with a loop of weight 1 in each, sorted."""
    loops = sp.eye(*block.shape, k=first_row, format="csr")
    both = sp.csr_matrix(drop_loops(block, first_row) + loops)
    both.sort_indices()
    return both


def random_walk_matrix(adjacency: sp.csr_matrix) -> sp.csr_matrix:
    """Return :math:`D^{-1} A` as a scipy matrix."""
    degree = np.asarray(adjacency.sum(1), dtype=np.float64).ravel()
    share = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    return sp.csr_matrix(sp.diags(share) @ adjacency)


def retained_edge_shares(learned: sp.csr_matrix, prior: sp.csr_matrix) -> sp.csr_matrix:
    r"""Return :math:`\min(1, a_{ij} / g_{ij})` at the edges of the prior graph, without loops.

    An edge that is not in the learned graph is stored as a zero.
    """
    edges = drop_loops(prior).tocoo()
    kept = np.asarray(learned[edges.row, edges.col]).ravel()
    shares = np.clip(kept / edges.data, 0.0, 1.0)
    return sp.csr_matrix((shares, (edges.row, edges.col)), shape=edges.shape)


# Spectral features

_MAX_COLUMNS, _NODES_PER_COLUMN = 32, 20
_N_LEADING = 8  # columns of the adjacency matrix itself, the leading one first
_N_STEPS = 30  # of the subspace iteration: similarities need the space, not its single vectors
_RANK_TOLERANCE = 1e-10  # directions with a smaller share of the largest variance are dropped


@dataclass(frozen=True, eq=False)
class SpectralFeatures:
    """Features of nodes from the leading eigenspaces of a graph.

    There are two: that of the normalised adjacency matrix, and after it the leading eigenvectors of
    the adjacency matrix itself, which links between nodes of few neighbours hardly change. The
    features of a node are the normalised sum of its neighbours' rows of each embedding, so a new
    node gets them from its links.
    """

    embedding: np.ndarray  # one row for each node of this process, both side by side
    size: float = 1.0  # norm of the features of a node

    @classmethod
    def of(
        cls, block: sp.csr_matrix, layout: Partition, *, size: float = 1.0, seed: int = 0
    ) -> tuple["SpectralFeatures", np.ndarray]:
        """Compute both embeddings by subspace iteration; return them and the nodes' features."""
        n_nodes = layout.n_nodes
        graph = GraphRows.of(block, layout, dtype=torch.float64)
        degree = graph.row_sums()
        shift = layout.sum(float(degree.sum())) / n_nodes
        root = (degree + max(shift, 1e-300)).rsqrt()[:, None]
        width = min(_MAX_COLUMNS, max(2, n_nodes // _NODES_PER_COLUMN))
        start = np.random.default_rng(seed).standard_normal((n_nodes, width))
        basis = _orthonormalize(torch.from_numpy(start[layout.rows]), layout)
        leading = basis
        for _ in range(_N_STEPS):
            basis = _orthonormalize(root * (graph @ (root * basis)), layout)
            leading = _orthonormalize(graph @ leading, layout)
        values, vectors = torch.linalg.eigh(layout.sum(leading.T @ (graph @ leading)))
        order = values.abs().argsort(descending=True)[:_N_LEADING]
        model = cls(torch.cat([root * basis, leading @ vectors[:, order]], 1).numpy(), size)
        return model, model._scale((graph @ torch.from_numpy(model.embedding)).numpy())

    def transform(self, links: Any, n_new: int) -> np.ndarray:
        """Return the features of new nodes from their links; zero without links."""
        if links is None:
            return np.zeros((n_new, self.embedding.shape[1]))
        return self._scale(np.asarray(sp.csr_matrix(links) @ self.embedding))

    def _scale(self, sums: np.ndarray) -> np.ndarray:
        """Return the rows with each of their two parts scaled to the common length."""
        parts = np.split(sums, [-self._n_leading], axis=1)
        return np.concatenate([self.size * normalize(part) for part in parts], 1)

    @property
    def _n_leading(self) -> int:
        return int(min(_N_LEADING, self.embedding.shape[1] // 2))

    def split(self, features: Any) -> tuple[Any, np.ndarray]:
        """Return features that end with those of this class without the second part, and that."""
        first = features.shape[1] - self._n_leading
        return features[:, :first], to_dense_array(features[:, first:])


def is_uninformative(features: Any, layout: Partition) -> bool:
    """Return whether features cannot make two nodes similar.

    That is so if no two nodes have a common nonzero column, or if all rows are equal.
    """
    if layout.sum(count_nonzero(features)).max() <= 1:
        return True
    first = to_dense_array(features[:100])
    if layout.max(float((first != first[:1]).any())):  # most tables differ here already
        return False
    bounds = (to_dense_array(bound).ravel() for bound in (features.max(0), -features.min(0)))
    high, low = (layout.max(bound.astype(np.float64)) for bound in bounds)
    return bool((high + low == 0).all())


def count_nonzero(features: Any) -> Float64[np.ndarray, "f"]:
    """Return the number of nonzero entries in each column of a dense or CSR matrix."""
    if sp.issparse(features):
        columns = features.indices if features.data.all() else features.indices[features.data != 0]
        return np.bincount(columns, minlength=features.shape[1]).astype(np.float64)
    return np.asarray(np.count_nonzero(features, axis=0), dtype=np.float64)


def _orthonormalize(z: Float64[Tensor, "n k"], layout: Partition) -> Float64[Tensor, "n k"]:
    """Return an orthonormal basis of the span of the columns; dependent columns become zero."""
    gram = layout.sum(z.T @ z)
    values, vectors = torch.linalg.eigh(gram)
    kept = values > _RANK_TOLERANCE * values[-1].clamp_min(1e-300)
    scale = torch.where(kept, values.clamp_min(1e-300).rsqrt(), 0.0)
    basis: Tensor = z @ (vectors * scale)
    return basis
