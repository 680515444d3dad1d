"""Some rows of a symmetric graph, multiplied with signals whose rows are spread alike."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.base import GraphOperator
from glnn.graph.csr import CsrMatrix, CsrPattern, added, product
from glnn.graph.prior import inverse_root
from glnn.peers import ALONE, Partition, row_exchange
from glnn.peers.once import computed_once
from glnn.peers.row_exchange import RowExchange


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
        return n_nodes * x.shape[1] * x.element_size() <= row_exchange.AT_ONCE

    @computed_once
    def whole(self) -> "WholeRows | None":
        """All rows of the matrix, if there are several processes and the matrix is small."""
        part = self._exchange.partition
        n_bytes = part.peers.all_reduce(float(len(self.entries))) * 16
        if part.peers.size == 1 or n_bytes > row_exchange.AT_ONCE:
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
