"""Some rows of a symmetric graph, multiplied with signals whose rows are spread alike."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.base import GraphOperator
from glnn.graph.csr import CsrMatrix, CsrPattern, added
from glnn.peers import Partition

_NARROWEST = 8  # columns of a product; fewer cost more calls than they save room


class GraphRows(GraphOperator):
    r"""The rows :math:`A_p` of a symmetric matrix that process ``p`` has.

    For :math:`(A x)_p = A_p x` only those rows of :math:`x` arrive that :math:`A_p` touches, and
    so few columns at a time that they take no more room than the rows that are here. Each entry
    is summed in the order of a single process. Since :math:`A^\top = A`, the gradient is the same
    product.
    """

    def __init__(
        self,
        partition: Partition,
        block: sp.csr_matrix,
        *,
        device: str | torch.device = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self._partition, self._device, self._dtype = partition, torch.device(device), dtype
        self._peers = partition.peers
        squeezed, touched = _squeezed(block)
        self._matrix = self._filled(squeezed)
        ends = np.searchsorted(touched, partition.bounds)
        wanted = []
        for source in range(self._peers.size):
            places = touched[ends[source] : ends[source + 1]] - partition.bounds[source]
            wanted.append(places.astype(np.int64))
        self._ends: list[int] = ends.tolist()
        self._widening = max(1.0, self._peers.all_reduce(len(touched) / self.n_nodes, "max"))
        asked = self._peers.all_to_all(wanted)
        self._asked = [torch.from_numpy(places).to(self._device) for places in asked]

    def _filled(self, part: sp.csr_matrix) -> CsrMatrix:
        part.sort_indices()
        offsets = torch.from_numpy(part.indptr.astype(np.int64)).to(self._device)
        columns = torch.from_numpy(part.indices.astype(np.int64)).to(self._device)
        values = torch.from_numpy(part.data).to(self._device, self._dtype)
        order = torch.arange(part.nnz, device=self._device)
        return CsrPattern.compressed(part.shape, offsets, columns, order).filled(values)

    @property
    def n_nodes(self) -> int:
        """Number of rows that are here."""
        return self._partition.n_rows

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return _Product.apply(x, self)  # type: ignore[no-any-return, no-untyped-call]

    def row_sums(self) -> Float[Tensor, "n"]:
        """Return the sums of the rows that are here."""
        ones = torch.ones(self.n_nodes, 1, device=self._device, dtype=self._dtype)
        return (self @ ones)[:, 0]

    def sum_of_powers(self, x: Float[Tensor, "n d"], n_steps: int) -> Float[Tensor, "n d"]:  # noqa: D102
        return _SumOfPowers.apply(x, self, n_steps)  # type: ignore[no-any-return, no-untyped-call]

    def product(self, x: Tensor) -> Tensor:
        """Return the product; no gradient flows through it."""
        return self.added(torch.zeros_like(x), x)

    def added(self, total: Tensor, x: Tensor) -> Tensor:
        """Add the product to ``total``; return the sum."""
        width = x.shape[1]
        n_columns = max(_NARROWEST, int(width / self._widening))
        for first in range(0, width, n_columns):
            columns = slice(first, first + n_columns)
            part = total[:, columns].contiguous()
            total[:, columns] = added(part, self._matrix, self._arrived(x[:, columns]))
        return total

    def _arrived(self, x: Tensor) -> Tensor:
        """Return the rows that are touched, of every process."""
        rank, size = self._peers.rank, self._peers.size
        arrived = x.new_empty(self._ends[-1], x.shape[1])
        arrived[self._ends[rank] : self._ends[rank + 1]] = x[self._asked[rank]]
        for shift in range(1, size):
            to, source = (rank + shift) % size, (rank - shift) % size
            place = arrived[self._ends[source] : self._ends[source + 1]]
            self._peers.ring_shift(x[self._asked[to]], place, shift)
        return arrived


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: GraphRows) -> Tensor:
        ctx.rows = rows
        return rows.product(x.contiguous())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        rows: GraphRows = ctx.rows
        return rows.product(grads[0].contiguous()), None


class _SumOfPowers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, rows: GraphRows, n_steps: int) -> Tensor:
        ctx.rows, ctx.n_steps = rows, n_steps
        return _horner(rows, x.contiguous(), n_steps)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return _horner(ctx.rows, grads[0].contiguous(), ctx.n_steps), None, None


def _horner(rows: GraphRows, x: Tensor, n_steps: int) -> Tensor:
    z = x.clone()
    for _ in range(n_steps):
        z = rows.added(x.clone(), z)
    return z


def _squeezed(part: sp.csr_matrix) -> tuple[sp.csr_matrix, np.ndarray]:
    """Leave out columns without an entry; return which are left."""
    touched, columns = np.unique(part.indices, return_inverse=True)
    arrays = (part.data, columns, part.indptr)
    shape = (part.shape[0], len(touched))
    return sp.csr_matrix(arrays, shape=shape), touched.astype(np.int64)
