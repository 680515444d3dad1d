"""Symmetric N x N matrices that are never formed: read on pairs or tile by tile."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn.graph.csr import CsrMatrix, product
from glnn.solver.pairs import Pairs

if TYPE_CHECKING:
    Matrix: TypeAlias = Any  # scipy has no types
else:
    Matrix = np.ndarray | sp.csr_matrix

BLOCK_BYTES = 64 * 2**20
DEVICE_BYTES = 4 * 2**30
"""What dense rows may take on a device that is not the host."""

_DENSE_FROM = 0.05  # share of non-zeros from which a dense product is the faster one


@dataclass(frozen=True, eq=False)
class Factor:
    r"""The low-rank part :math:`F_{ij} = c\,\ell_i \cdot r_j`; its matrix must be symmetric."""

    left: Matrix
    right: Matrix
    device: str = "cpu"
    scale: float | int = 1.0

    def on_pairs(self, pairs: Pairs) -> np.ndarray:
        """Return the entries on the pairs, a bounded number of them at a time."""
        if self.device == "cpu":
            dots = pair_dots(self.left, self.right, pairs.i, pairs.j)
            return dots if self.scale == 1 else self.scale * dots
        i, j = (torch.from_numpy(ends).to(self.device) for ends in (pairs.i, pairs.j))
        return self.on_ends(i, j).cpu().numpy()

    def on_ends(self, i: Tensor, j: Tensor) -> Tensor:
        """Return the entries on pairs whose ends lie on a device, some columns at a time."""
        n_rows, width = self.right.shape
        step = max(1, DEVICE_BYTES // (16 * n_rows))
        total = torch.zeros(len(i), dtype=torch.float64, device=i.device)
        for first in range(0, width, step):
            columns = slice(first, min(first + step, width))
            right = _columns_on_device(self.right, columns, i.device)
            same = self.left is self.right
            left = right if same else _columns_on_device(self.left, columns, i.device)
            total += resident_pair_dots(left, right, i, j)
        return total if self.scale == 1 else total * self.scale


@dataclass(frozen=True, eq=False)
class Implicit:
    r"""The matrix :math:`M_{ij} = c + u_i + u_j + t\,[i=j] + P_{ij} + \sum_f F_{ij}`.

    Parameters
    ----------
    constant, loop
        The scalars :math:`c` and :math:`t`.
    nodes
        The vector :math:`u`.
    sparse
        The symmetric CSR matrix :math:`P`.
    factors
        The low-rank parts.
    """

    nodes: np.ndarray
    constant: float = 0.0
    loop: float = 0.0
    sparse: sp.csr_matrix | None = None
    factors: tuple[Factor, ...] = ()

    def __add__(self, other: "Implicit") -> "Implicit":
        parts = [part for part in (self.sparse, other.sparse) if part is not None]
        return Implicit(
            self.nodes + other.nodes,
            self.constant + other.constant,
            self.loop + other.loop,
            sp.csr_matrix(sum(parts[1:], start=parts[0])) if parts else None,
            self.factors + other.factors,
        )

    def on_pairs(self, pairs: Pairs) -> np.ndarray:
        """Return the entries on the pairs."""
        values: np.ndarray = self.nodes[pairs.i] + self.nodes[pairs.j] + self.constant
        if self.loop:
            values[pairs.i == pairs.j] += self.loop
        if self.sparse is not None and self.sparse.nnz:
            values += pairs.values_of(self.sparse)
        for factor in self.factors:
            values += factor.on_pairs(pairs)
        return values

    def tiles(self, *, block_bytes: int = BLOCK_BYTES, device: str = "cpu") -> Iterator["Tile"]:
        """Yield square tiles that cover the upper triangle, diagonal tiles in full."""
        n_nodes = len(self.nodes)
        size = tile_size(self.factors, block_bytes)
        nodes = torch.as_tensor(self.nodes, device=device)
        for first_column in range(0, n_nodes, size):
            columns = slice(first_column, min(first_column + size, n_nodes))
            rights = [dense_rows(factor.right[columns], device).T for factor in self.factors]
            for first_row in range(0, first_column + 1, size):
                rows = slice(first_row, min(first_row + size, n_nodes))
                values = nodes[rows, None] + (nodes[columns] + self.constant)
                for factor, right in zip(self.factors, rights):
                    values.add_(times(factor.left[rows], right), alpha=factor.scale)
                if first_row == first_column and self.loop:
                    values.diagonal().add_(self.loop)
                tile = Tile(first_row, first_column, values)
                tile.add_sparse(self.sparse)
                yield tile


@dataclass(frozen=True, eq=False)
class Tile:
    """The entries from ``first_row`` and ``first_column`` on; the caller may change them."""

    first_row: int
    first_column: int
    values: Tensor

    @property
    def on_diagonal(self) -> bool:
        """Whether the tile holds both halves of its pairs."""
        return self.first_row == self.first_column

    def add_sparse(self, matrix: sp.csr_matrix | None, scale: float = 1.0) -> None:
        """Add the matching part of a sparse N x N matrix."""
        if matrix is None or not matrix.nnz:
            return
        rows, columns = self.values.shape
        part = matrix[
            self.first_row : self.first_row + rows, self.first_column : self.first_column + columns
        ].tocoo()
        place = torch.from_numpy(part.row.astype(np.int64) * columns + part.col)
        values = torch.from_numpy(scale * part.data).to(self.values)
        self.values.view(-1).index_add_(0, place.to(values.device), values)


def pair_dots(
    left: Matrix, right: Matrix, i: np.ndarray, j: np.ndarray, *, chunk_bytes: int = 2**23
) -> np.ndarray:
    r"""Return :math:`\ell_{i_p} \cdot r_{j_p}` for every pair ``p``, sparse or dense."""
    result = np.empty(len(i))
    step = max(1, chunk_bytes // (16 * max(1.0, _row_length(left), _row_length(right))).__ceil__())
    for start in range(0, len(i), step):
        part = slice(start, start + step)
        result[part] = _row_dots(left, right, i[part], j[part])
    return result


def _row_dots(left: Matrix, right: Matrix, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    if sp.issparse(left) and sp.issparse(right):
        return np.asarray(left[i].multiply(right[j]).sum(1)).ravel()
    if sp.issparse(left):
        left, right, i, j = right, left, j, i
    if sp.issparse(right):
        rows = right[j]
        owner = np.repeat(np.arange(len(j)), np.diff(rows.indptr))
        return np.bincount(owner, rows.data * left[i[owner], rows.indices], len(j))
    return np.asarray(np.einsum("pd,pd->p", left[i], right[j]))


def resident_pair_dots(
    left: Tensor, right: Tensor, i: Tensor, j: Tensor, *, chunk_bytes: int = 2**30
) -> Tensor:
    """Return the same products of rows that lie on a device."""
    step = max(1, chunk_bytes // (16 * max(1, left.shape[1])))
    parts = [
        (left[first] * right[second]).sum(1)
        for first, second in zip(torch.split(i, step), torch.split(j, step))
    ]
    return torch.cat(parts)


def _row_length(matrix: Matrix) -> float:
    """Mean number of stored values of a row."""
    stored = matrix.nnz / max(1, matrix.shape[0]) if sp.issparse(matrix) else matrix.shape[1]
    return float(stored)


def is_thin(matrix: Matrix) -> bool:
    """Whether a sparse product beats a dense one."""
    return sp.issparse(matrix) and bool(matrix.nnz < _DENSE_FROM * np.prod(matrix.shape))


def tile_size(factors: tuple[Factor, ...], block_bytes: int) -> int:
    """Rows of a square tile such that tile, scratch copies and dense factors stay in the block."""
    entries = max(1, block_bytes // 8)
    widest = max((factor.right.shape[1] for factor in factors), default=1)
    return max(1, min(int((entries / 4) ** 0.5), entries // (2 * widest)))


def dense_rows(matrix: Matrix, device: str) -> Tensor:
    """Return rows as a dense tensor on the device."""
    dense = matrix.toarray() if sp.issparse(matrix) else matrix
    return torch.as_tensor(np.ascontiguousarray(dense), device=device)


def dense_bytes(matrix: Matrix) -> int:
    """Return what the matrix takes if all of its entries are stored."""
    return int(matrix.shape[0]) * int(matrix.shape[1]) * int(matrix.dtype.itemsize)


def on_device(matrix: Matrix, device: str) -> Tensor:
    """Return all rows dense on a device; of a sparse matrix only what is stored travels."""
    if not sp.issparse(matrix):
        return dense_rows(matrix, device)
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    place = torch.from_numpy(rows * matrix.shape[1] + matrix.indices).to(device)
    values = torch.from_numpy(matrix.data).to(device)
    dense = torch.zeros(int(np.prod(matrix.shape)), dtype=values.dtype, device=device)
    return dense.index_add_(0, place, values).view(*matrix.shape)


def _columns_on_device(matrix: Matrix, columns: slice, device: torch.device) -> Tensor:
    part = matrix if columns.stop - columns.start == matrix.shape[1] else matrix[:, columns]
    return on_device(part, str(device)).double()


def times(left: Matrix, right: Tensor) -> Tensor:
    """Return ``left @ right``: a sparse product where ``left`` has few non-zeros."""
    if right.device.type == "cpu" and is_thin(left):
        if left.dtype == np.float32:
            return product(CsrMatrix.from_scipy(left), right)
        return torch.from_numpy(left @ np.ascontiguousarray(right.numpy()))
    return dense_rows(left, str(right.device)) @ right
