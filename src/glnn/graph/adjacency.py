"""Weighted graphs: the interface that the objective and the networks use, dense and sparse."""

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glnn.exceptions import InputError
from glnn.graph.rows import CsrMatrix, CsrPattern, csr_addmm, csr_matmul, to_device


class GraphOperator(ABC):
    """A linear operator on signals over the nodes of a graph."""

    @property
    @abstractmethod
    def n_nodes(self) -> int:
        """Number of nodes."""

    @abstractmethod
    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        r"""Return :math:`A x`."""

    def sum_of_powers(self, x: Float[Tensor, "n d"], n_steps: int) -> Float[Tensor, "n d"]:
        r"""Return :math:`\sum_{k=0}^{K} A^k x` by Horner's rule, :math:`z \leftarrow A z + x`."""
        z = x
        for _ in range(n_steps):
            z = self @ z + x
        return z

    def sum_of_powers_transposed(
        self, x: Float[Tensor, "n d"], n_steps: int
    ) -> Float[Tensor, "n d"]:
        r"""Return :math:`\sum_{k=0}^{K} (A^\top)^k x`; the same for a symmetric matrix."""
        return self.sum_of_powers(x, n_steps)


class Adjacency(GraphOperator):
    r"""A weighted graph on ``n`` nodes, :math:`A \in \mathbb{R}^{n \times n}`.

    A subclass lists its stored entries (:meth:`rows`, :meth:`columns`, :meth:`values`). Entry
    ``p`` of the list stands for :meth:`counts` ``[p]`` entries of the full matrix: 2 for a pair
    that is stored once, 1 for a loop or if the full matrix is stored.
    """

    @abstractmethod
    def rows(self) -> Int[Tensor, "p"]:
        """Row of each stored entry."""

    @abstractmethod
    def columns(self) -> Int[Tensor, "p"]:
        """Column of each stored entry."""

    @abstractmethod
    def values(self) -> Float[Tensor, "p"]:
        """Weight of each stored entry; differentiable."""

    @abstractmethod
    def counts(self) -> Float[Tensor, "p"]:
        """Return how many entries of the full matrix each stored entry stands for."""

    @abstractmethod
    def entries(self, rows: Int[Tensor, "q"], columns: Int[Tensor, "q"]) -> Float[Tensor, "q"]:
        """Return the weights at these rows and columns, zero where nothing is stored."""

    @abstractmethod
    def to_dense(self) -> Float[Tensor, "n n"]:
        """Return the full matrix, for tests and small graphs."""

    @abstractmethod
    def asymmetry(self) -> Float[Tensor, ""]:
        r"""Return :math:`\|A^\top - A\|_F^2`."""

    def row_sums(self) -> Float[Tensor, "n"]:
        r"""Return :math:`r = A 1`."""
        ones = torch.ones(self.n_nodes, 1, dtype=self.values().dtype, device=self.values().device)
        return (self @ ones)[:, 0]

    def trace(self) -> Float[Tensor, ""]:
        r"""Return :math:`\operatorname{tr}(A)`."""
        return self.values()[self.rows() == self.columns()].sum()


class DenseAdjacency(Adjacency):
    """A graph stored as a dense matrix.

    Examples
    --------
    >>> DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]])).row_sums()
    tensor([1., 1.])
    """

    def __init__(self, matrix: Float[Tensor, "n n"]) -> None:
        self._matrix = matrix

    @property
    def n_nodes(self) -> int:  # noqa: D102
        return self._matrix.shape[0]

    def rows(self) -> Int[Tensor, "p"]:  # noqa: D102
        nodes = torch.arange(self.n_nodes, device=self._matrix.device)
        return nodes.repeat_interleave(self.n_nodes)

    def columns(self) -> Int[Tensor, "p"]:  # noqa: D102
        return torch.arange(self.n_nodes, device=self._matrix.device).repeat(self.n_nodes)

    def values(self) -> Float[Tensor, "p"]:  # noqa: D102
        return self._matrix.reshape(-1)

    def counts(self) -> Float[Tensor, "p"]:  # noqa: D102
        return torch.ones_like(self.values())

    def entries(self, rows: Int[Tensor, "q"], columns: Int[Tensor, "q"]) -> Float[Tensor, "q"]:  # noqa: D102
        return self._matrix[rows, columns]

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return self._matrix @ x

    def to_dense(self) -> Float[Tensor, "n n"]:  # noqa: D102
        return self._matrix

    def asymmetry(self) -> Float[Tensor, ""]:  # noqa: D102
        return (self._matrix.T - self._matrix).square().sum()

    def row_sums(self) -> Float[Tensor, "n"]:  # noqa: D102
        return self._matrix.sum(1)

    def trace(self) -> Float[Tensor, ""]:  # noqa: D102
        return self._matrix.diagonal().sum()


class SparseAdjacency(Adjacency):
    r"""A symmetric graph stored as one value for each pair :math:`i \le j` of a fixed list.

    The sparsity pattern is built once; values may be replaced and are differentiable. The gradient
    of an off-diagonal pair is the sum over both of its entries.

    Examples
    --------
    >>> pair = SparseAdjacency(2, torch.tensor([0]), torch.tensor([1]), torch.tensor([0.5]))
    >>> pair.to_dense()
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]])
    """

    def __init__(
        self,
        n_nodes: int,
        rows: Int[Tensor, "p"],
        columns: Int[Tensor, "p"],
        values: Float[Tensor, "p"],
    ) -> None:
        keys = rows * n_nodes + columns
        outside = (rows < 0) | (rows > columns) | (columns >= n_nodes)
        disorder = keys[1:] <= keys[:-1]
        is_outside, is_disordered = torch.stack([outside.any(), disorder.any()]).tolist()
        if is_outside:
            raise InputError(f"pairs must satisfy 0 <= i <= j < {n_nodes}; sort each pair.")
        if is_disordered:
            raise InputError("pairs must be listed once each, in increasing order.")
        self._n_nodes, self._rows, self._columns = n_nodes, rows, columns
        self._keys, self._values = keys, values
        self._counts = torch.where(rows == columns, 1.0, 2.0).to(values.dtype)
        self._matrix: CsrMatrix | None = None

    @cached_property
    def _pattern(self) -> CsrPattern:
        return symmetric_pattern(self._n_nodes, self._rows, self._columns)

    @classmethod
    def from_scipy(cls, matrix: Any, *, dtype: torch.dtype = torch.float64) -> "SparseAdjacency":
        """Store the upper triangle of a symmetric scipy matrix."""
        csr = sp.csr_matrix(matrix)
        if not csr.has_canonical_format:
            csr = csr.copy()
            csr.sum_duplicates()
        rows, columns, values = upper_entries(csr)
        return cls(csr.shape[0], rows, columns, values.to(dtype))

    def to_scipy(self) -> sp.csr_matrix:
        """Return the full symmetric matrix as scipy CSR."""
        pattern, values = self._pattern, self._values.detach().cpu().numpy()
        data = values[pattern.source.cpu().numpy()]
        arrays = (data, pattern.columns.cpu().numpy(), pattern.offsets.cpu().numpy())
        return sp.csr_matrix(arrays, shape=(self._n_nodes, self._n_nodes))

    def to(self, device: str | torch.device) -> "SparseAdjacency":
        """Return the same graph on another device."""
        if torch.device(device) == self._values.device:
            return self
        moved = (t.to(device) for t in (self._rows, self._columns, self._values))
        return SparseAdjacency(self._n_nodes, *moved)

    def with_values(self, values: Float[Tensor, "p"]) -> "SparseAdjacency":
        """Return a graph with the same pairs and other values; the pattern is shared."""
        other = object.__new__(SparseAdjacency)
        other.__dict__.update(self.__dict__, _pattern=self._pattern)
        other._values, other._matrix = values, None
        return other

    def to_csr(self) -> CsrMatrix:
        """Return the full matrix; it is cached unless the values require gradients."""
        if self._values.requires_grad:
            return self._pattern.with_entries(self._values.detach()[self._pattern.source])
        if self._matrix is None:
            self._matrix = self._pattern.with_entries(self._values[self._pattern.source])
        return self._matrix

    @property
    def n_nodes(self) -> int:  # noqa: D102
        return self._n_nodes

    def rows(self) -> Int[Tensor, "p"]:  # noqa: D102
        return self._rows

    def columns(self) -> Int[Tensor, "p"]:  # noqa: D102
        return self._columns

    def values(self) -> Float[Tensor, "p"]:  # noqa: D102
        return self._values

    def counts(self) -> Float[Tensor, "p"]:  # noqa: D102
        return self._counts

    def entries(self, rows: Int[Tensor, "q"], columns: Int[Tensor, "q"]) -> Float[Tensor, "q"]:  # noqa: D102
        wanted = torch.minimum(rows, columns) * self._n_nodes + torch.maximum(rows, columns)
        if not len(self._keys):
            return torch.zeros(len(wanted), dtype=self._values.dtype, device=wanted.device)
        place = torch.searchsorted(self._keys, wanted).clamp(max=len(self._keys) - 1)
        found = self._keys[place] == wanted
        return torch.where(found, self._values[place], torch.zeros_like(self._values[place]))

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return _SymmetricMatmul.apply(self._values, x, self)  # type: ignore[no-any-return, no-untyped-call]

    def sum_of_powers(self, x: Float[Tensor, "n d"], n_steps: int) -> Float[Tensor, "n d"]:  # noqa: D102
        if self._values.requires_grad:
            return super().sum_of_powers(x, n_steps)
        return _SumOfPowers.apply(x, self, n_steps)  # type: ignore[no-any-return, no-untyped-call]

    def to_dense(self) -> Float[Tensor, "n n"]:  # noqa: D102
        zeros = torch.zeros(self._n_nodes, self._n_nodes, dtype=self._values.dtype)
        zeros = zeros.to(self._values.device)
        upper = zeros.index_put((self._rows, self._columns), self._values)
        return upper + upper.T - torch.diag(upper.diagonal())

    def asymmetry(self) -> Float[Tensor, ""]:
        """Return zero: the matrix is symmetric."""
        return self._values.sum() * 0


def symmetric_pattern(
    n_nodes: int, rows: Int[Tensor, "p"], columns: Int[Tensor, "p"]
) -> CsrPattern:
    """Return the pattern of both triangles; the source of an entry is its pair."""
    place = torch.arange(len(rows), device=rows.device)
    off = (rows != columns).nonzero()[:, 0]
    all_rows = torch.cat([rows, columns[off]])
    all_columns = torch.cat([columns, rows[off]])
    source = torch.cat([place, place[off]])
    return CsrPattern.from_entries(n_nodes, n_nodes, all_rows, all_columns, source)


def stored_entries(
    matrix: sp.csr_matrix, device: str | torch.device = "cpu"
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, columns and values of the stored entries, on a device."""
    parts = (matrix.indptr.astype(np.int64), matrix.indices, matrix.data)
    starts, columns, values = (to_device(part, device) for part in parts)
    nodes = torch.arange(matrix.shape[0], device=starts.device)
    rows = torch.repeat_interleave(nodes, starts.diff(), output_size=len(columns))
    return rows, columns, values


def upper_entries(
    matrix: sp.csr_matrix, device: str | torch.device = "cpu"
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, columns and values of the stored entries with row <= column."""
    rows, columns, values = stored_entries(matrix, device)
    upper = torch.nonzero(rows <= columns).view(-1)
    return rows[upper], columns[upper].long(), values[upper]


class _SymmetricMatmul(torch.autograd.Function):
    r""":math:`Z = A X` with both gradients; since :math:`A^\top = A` no transpose is stored."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, x: Tensor, adjacency: SparseAdjacency) -> Tensor:
        ctx.save_for_backward(values, x)
        ctx.adjacency = adjacency
        return csr_matmul(adjacency.to_csr(), x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        _, x = ctx.saved_tensors
        (grad,) = grads
        adjacency: SparseAdjacency = ctx.adjacency
        needs_values, needs_x, _ = ctx.needs_input_grad
        for_x = csr_matmul(adjacency.to_csr(), grad.contiguous()) if needs_x else None
        for_values = None
        if needs_values:  # dL/da_ij = g_i.x_j + g_j.x_i, and g_i.x_i on the diagonal
            i, j = adjacency._rows, adjacency._columns
            both = (grad[i] * x[j]).sum(1) + (grad[j] * x[i]).sum(1)
            for_values = both * (adjacency._counts / 2)
        return for_values, for_x, None


class _SumOfPowers(torch.autograd.Function):
    r""":math:`S x` with :math:`S = \sum_k A^k`; the gradient is the same, since S is symmetric."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, adjacency: SparseAdjacency, n_steps: int) -> Tensor:
        ctx.adjacency, ctx.n_steps = adjacency, n_steps
        return _horner(adjacency.to_csr(), x, n_steps)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return _horner(ctx.adjacency.to_csr(), grads[0].contiguous(), ctx.n_steps), None, None


def _horner(matrix: CsrMatrix, x: Tensor, n_steps: int) -> Tensor:
    """Return the sum of powers by Horner's rule with two alternating buffers."""
    if n_steps == 0:
        return x.clone()
    z, spare = csr_addmm(x, matrix, x, out=torch.empty_like(x)), torch.empty_like(x)
    for _ in range(n_steps - 1):
        z, spare = csr_addmm(x, matrix, z, out=spare), z
    return z
