"""Some rows of a symmetric graph, multiplied with signals whose rows are spread alike."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Float64
from sklearn.preprocessing import normalize
from torch import Tensor

from glnn import distributed
from glnn.distributed import ALONE, Partition, Peers, RowExchange, computed_once
from glnn.graph.adjacency import GraphOperator
from glnn.graph.prior import inverse_root
from glnn.graph.rows import CsrMatrix, CsrPattern, added, product

# --- graph_rows: Some rows of a symmetric graph, multiplied with signals whose rows are spread ali


class GraphRows(GraphOperator):
    r"""The rows :math:`A_p` of a symmetric matrix that process ``p`` has; alone, all of them.

    For :math:`(A x)_p = A_p x` only those rows of :math:`x` are fetched that :math:`A_p` touches.
    Since :math:`A^\top = A`, the gradient is the same product. To fetch a row takes about as long
    as to compute it, so powers of a small graph are taken of all rows by every process: then rows
    are fetched once and not for each power.

    Examples
    --------
    >>> swap = GraphRows.of(sp.csr_matrix(np.array([[0.0, 1.0], [1.0, 0.0]])))
    >>> swap @ torch.tensor([[1.0], [2.0]])
    tensor([[2.],
            [1.]])
    """

    def __init__(self, matrix: CsrMatrix, exchange: RowExchange) -> None:
        self._matrix, self._exchange = matrix, exchange

    @classmethod
    def of(
        cls,
        block: sp.csr_matrix,
        partition: Partition | None = None,
        *,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> "GraphRows":
        """Take the rows that are here, CSR with N columns and sorted."""
        partition = partition or Partition(block.shape[0], ALONE)
        columns, wanted = block.indices, np.arange(block.shape[1])
        if partition.peers.size > 1:
            wanted, columns = np.unique(block.indices, return_inverse=True)
        offsets, places = (
            torch.from_numpy(np.asarray(numbers)).to(device) for numbers in (block.indptr, columns)
        )
        pattern = CsrPattern.compressed(
            (block.shape[0], len(wanted)), offsets, places, torch.arange(block.nnz, device=device)
        )
        values = torch.from_numpy(block.data).to(device, dtype)
        return cls(pattern.filled(values), RowExchange(partition, wanted, device))

    def with_entries(self, entries: Float[Tensor, "e"]) -> "GraphRows":
        """Return the same places with other values, in the order of the rows."""
        return GraphRows(self._matrix.pattern.filled(entries), self._exchange)

    @property
    def n_nodes(self) -> int:
        """Number of rows that are here."""
        return self._matrix.pattern.shape[0]

    @property
    def entries(self) -> Float[Tensor, "e"]:
        """The stored values, row by row."""
        return self._matrix.entries

    def row_sums(self) -> Float[Tensor, "n"]:
        """Return the sums of the rows that are here."""
        n_columns = self._matrix.pattern.shape[1]
        return product(self._matrix, self.entries.new_ones(n_columns, 1))[:, 0]

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        if not x.requires_grad:
            return self.product(x)
        return _Product.apply(x, self)  # type: ignore[no-any-return, no-untyped-call]

    def sum_of_powers(self, x: Float[Tensor, "n d"], n_steps: int) -> Float[Tensor, "n d"]:  # noqa: D102
        if not x.requires_grad:
            return _powers(self, x, n_steps)
        return _SumOfPowers.apply(x, self, n_steps)  # type: ignore[no-any-return, no-untyped-call]

    def has_room(self, x: Float[Tensor, "n d"]) -> bool:
        """Whether signals of all nodes, as wide as these, are few enough to fetch at once."""
        n_nodes = self._exchange.partition.n_nodes
        return n_nodes * x.shape[1] * x.element_size() <= distributed.AT_ONCE

    @computed_once
    def whole(self) -> "WholeRows | None":
        """All rows of the matrix, if there are several processes and the matrix is small."""
        part = self._exchange.partition
        n_bytes = part.peers.all_reduce(float(len(self.entries))) * 16
        if part.peers.size == 1 or n_bytes > distributed.AT_ONCE:
            return None
        return WholeRows(self._gathered(), RowExchange.of_all(part, self.entries.device))

    def _gathered(self) -> "GraphRows":
        """Return all rows of the matrix, for one process."""
        n_nodes, device = self._exchange.partition.n_nodes, self.entries.device
        columns = self._exchange.wanted[self._matrix.pattern.columns.long()]
        own = (self._matrix.pattern.offsets.diff(), columns, self.entries)
        gather = self._exchange.partition.peers.all_gather
        counts, columns, entries = (torch.cat(gather(part)) for part in own)
        offsets = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
        order = torch.arange(len(columns), device=device)
        pattern = CsrPattern.compressed((n_nodes, n_nodes), offsets, columns, order)
        alone = RowExchange.of_all(Partition(n_nodes, ALONE), device)
        return GraphRows(pattern.filled(entries), alone)

    def product(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        """Return the product; no gradient flows through it."""
        blocks = self._exchange.column_blocks(x)
        if len(blocks) == 1:
            return product(self._matrix, self._exchange.fetched(x))
        return self.added(torch.zeros_like(x), x, torch.empty_like(x))

    def added(
        self, total: Float[Tensor, "n d"], x: Float[Tensor, "n d"], out: Float[Tensor, "n d"]
    ) -> Float[Tensor, "n d"]:
        """Return ``total`` plus the product, perhaps in ``out``."""
        blocks = self._exchange.column_blocks(x)
        if len(blocks) == 1:
            return added(total, self._matrix, self._exchange.fetched(x), out=out)
        for columns in blocks:
            part, fetched = total[:, columns].contiguous(), self._exchange.fetched(x[:, columns])
            out[:, columns] = added(part, self._matrix, fetched)
        return out


@dataclass(frozen=True, eq=False)
class WholeRows:
    """All rows of a small graph, and how to fetch signals of all nodes."""

    graph: GraphRows
    everyone: RowExchange

    def sum_of_powers(self, x: Float[Tensor, "n d"], n_steps: int) -> Float[Tensor, "n d"]:
        """Return own rows of the sum over powers; no gradient flows through it."""
        rows = self.everyone.partition.rows
        return _horner(self.graph, self.everyone.fetched(x), n_steps)[rows].clone()


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: GraphRows) -> Tensor:
        ctx.rows = rows
        return rows.product(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return ctx.rows.product(grads[0].contiguous()), None


class _SumOfPowers(torch.autograd.Function):
    r""":math:`S x` with :math:`S = \sum_k A^k`; :math:`S^\top = S` takes gradients back."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: GraphRows, n_steps: int) -> Tensor:
        ctx.rows, ctx.n_steps = rows, n_steps
        return _powers(rows, x, n_steps)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return _powers(ctx.rows, grads[0].contiguous(), ctx.n_steps), None, None


def _powers(rows: GraphRows, x: Tensor, n_steps: int) -> Tensor:
    """Return the sum of powers, by rows that are fetched once if there is room for all."""
    whole = rows.whole if n_steps > 1 and rows.has_room(x) else None
    return _horner(rows, x, n_steps) if whole is None else whole.sum_of_powers(x, n_steps)


def _horner(rows: GraphRows, x: Tensor, n_steps: int) -> Tensor:
    """Return the sum of powers; two buffers take turns: the sum so far, and the next one."""
    if n_steps == 0:
        return x.clone()
    z, spare = rows.added(x, x, torch.empty_like(x)), torch.empty_like(x)
    for _ in range(n_steps - 1):
        z, spare = rows.added(x, z, spare), z
    return z


def normalized_rows(
    block: sp.csr_matrix,
    partition: Partition | None = None,
    *,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> tuple[GraphRows, GraphRows]:
    r"""Return a graph's rows and those of :math:`D^{-1/2} A D^{-1/2}`, which share one pattern.

    Entries are scaled so that :math:`\hat a_{ij} = \hat a_{ji}` to the last bit.
    """
    partition = partition or Partition(block.shape[0], ALONE)
    graph = GraphRows.of(block, partition, device=device, dtype=dtype)
    degree = partition.everyone(np.asarray(block.sum(1), dtype=np.float64).ravel())
    root = torch.from_numpy(inverse_root(degree)).to(device)
    counts, columns, data = (
        torch.from_numpy(part).to(device)
        for part in (np.diff(block.indptr), block.indices, block.data)
    )
    here = torch.arange(partition.start, partition.stop, device=device)
    rows, columns = torch.repeat_interleave(here, counts), columns.long()
    first, second = torch.minimum(rows, columns), torch.maximum(rows, columns)
    scaled = data.double() * root[first] * root[second]
    return graph, graph.with_entries(scaled.to(dtype))


# --- random_walk: The random walk over a graph: each node takes the mean of its neighbours


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


# --- trust: How much of each given edge a learned graph has kept


def edge_trust(learned: sp.csr_matrix, prior: sp.csr_matrix) -> sp.csr_matrix:
    r"""Return :math:`\min(1, a_{ij} / g_{ij})` at the edges of the prior graph, loops left out.

    An edge that was dropped is stored as a zero.

    Examples
    --------
    >>> prior = sp.csr_matrix(np.array([[0.5, 0.4, 0.2], [0.4, 0.5, 0.0], [0.2, 0.0, 0.5]]))
    >>> learned = sp.csr_matrix(np.array([[0.0, 0.6, 0.1], [0.6, 0.0, 0.3], [0.1, 0.3, 0.0]]))
    >>> edge_trust(learned, prior).toarray()
    array([[0. , 1. , 0.5],
           [1. , 0. , 0. ],
           [0.5, 0. , 0. ]])
    """
    edges = without_loops(prior)
    rows = np.repeat(np.arange(edges.shape[0]), np.diff(edges.indptr))
    kept = np.asarray(learned[rows, edges.indices]).ravel()
    shares = np.clip(kept / edges.data, 0.0, 1.0)
    places = (edges.indices.copy(), edges.indptr.copy())  # they may be the prior graph's own
    return sp.csr_matrix((shares, *places), shape=edges.shape)


# --- structure: The smooth part of a graph as features, for nodes that have none of their own

_MAX_COLUMNS, _NODES_PER_COLUMN = 32, 20
_N_STEPS = 30
"""Steps of the subspace iteration; similarities need the space, not its single vectors."""

_FEW = 1000
"""Rows that are looked at before all of them."""

_DEPENDENT = 1e-10
"""Directions with less than this share of the largest variance are left out."""


@dataclass(frozen=True, eq=False)
class Structure:
    """What each node of a graph says to its neighbours.

    Parameters
    ----------
    voices
        A row for each node, or those that are here.
    size
        Length of the rows of features.

    Examples
    --------
    >>> apart = sp.block_diag([np.ones((3, 3)) - np.eye(3)] * 2, format="csr")
    >>> structure, rows = Structure.of(apart)
    >>> (rows @ rows.T).round(6)[0].tolist() == [1, 1, 1, 0, 0, 0]
    True
    """

    voices: np.ndarray
    size: float = 1.0

    @classmethod
    def of(
        cls,
        block: sp.csr_matrix,
        partition: Partition | None = None,
        *,
        size: float = 1.0,
        seed: int = 0,
    ) -> tuple["Structure", np.ndarray]:
        """Find the leading directions; return them with the features of the nodes that are here."""
        partition = partition or Partition(block.shape[0], ALONE)
        peers, n_nodes = partition.peers, partition.n_nodes
        graph = GraphRows.of(block, partition, dtype=torch.float64)
        degree = graph.row_sums()
        shift = peers.all_reduce(float(degree.sum())) / n_nodes
        root = (degree + max(shift, 1e-300)).rsqrt()[:, None]
        width = min(_MAX_COLUMNS, max(2, n_nodes // _NODES_PER_COLUMN))
        start = np.random.default_rng(seed).standard_normal((n_nodes, width))
        basis = _orthonormal(torch.from_numpy(start[partition.rows]), peers)
        for _ in range(_N_STEPS):
            basis = _orthonormal(root * (graph @ (root * basis)), peers)
        voices = root * basis
        near = size * normalize((graph @ voices).numpy())
        return cls(voices.numpy(), size), near

    def rows(self, links: Any, n_new: int) -> np.ndarray:
        """Return the features of new nodes by their links; zero where there are none."""
        if links is None:
            return np.zeros((n_new, self.voices.shape[1]))
        heard = normalize(np.asarray(sp.csr_matrix(links) @ self.voices))
        return np.asarray(self.size * heard)


def says_nothing(features: Any, peers: Peers = ALONE) -> bool:
    """Whether features tell no two nodes alike: no two share a column, or all rows are equal.

    Examples
    --------
    >>> says_nothing(np.eye(4)), says_nothing(np.ones((4, 1))), says_nothing(np.eye(4)[:, :2] + 1)
    (True, True, False)
    """
    dense = None if sp.issparse(features) else np.asarray(features)
    if dense is None:
        filled = np.bincount(features.indices[features.data != 0], minlength=features.shape[1])
    else:
        filled = np.count_nonzero(dense, axis=0)
    if peers.all_reduce(filled.astype(np.float64)).max() <= 1:
        return True
    high, low = _bounds(features[:_FEW])
    if peers.all_reduce(float((high + low).any()), "max"):
        return False  # which a few rows show as a rule
    high, low = (peers.all_reduce(bound, "max") for bound in _bounds(features))
    return bool((high + low == 0).all())


def _bounds(features: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest value of each column, and the largest negated one."""
    bounds = (features.max(0), -features.min(0))
    dense = (bound.toarray().ravel() if sp.issparse(bound) else bound for bound in bounds)
    high, low = (np.asarray(bound, dtype=np.float64) for bound in dense)
    return high, low


def _orthonormal(z: Float64[Tensor, "n k"], peers: Peers) -> Float64[Tensor, "n k"]:
    """Return an orthonormal basis of the columns' span; columns that depend on others are zero."""
    gram = peers.all_reduce(z.T @ z)
    values, vectors = torch.linalg.eigh(gram)
    kept = values > _DEPENDENT * values[-1].clamp_min(1e-300)
    scale = torch.where(kept, values.clamp_min(1e-300).rsqrt(), 0.0)
    basis: Tensor = z @ (vectors * scale)
    return basis
