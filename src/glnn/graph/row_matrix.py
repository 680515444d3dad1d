"""Matrices of signal rows from what users have, and those with all entries."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn.graph.row_base import RowMatrix, entries_at_once, to_device
from glnn.graph.sparse_rows import SparseRows


@dataclass(frozen=True, eq=False)
class DenseRows(RowMatrix):
    """All entries of all rows.

    Examples
    --------
    >>> DenseRows(torch.tensor([[3.0, 4.0]])).lengths()
    tensor([25.])
    """

    matrix: Tensor

    @property
    def n_columns(self) -> int:  # type: ignore[override] # noqa: D102
        return self.matrix.shape[1]

    def __len__(self) -> int:
        return len(self.matrix)

    def tensors(self) -> tuple[Tensor, ...]:  # noqa: D102
        return (self.matrix,)

    def like(self, tensors: tuple[Tensor, ...]) -> "DenseRows":  # noqa: D102
        return DenseRows(*tensors)

    def to(self, dtype: torch.dtype) -> "DenseRows":  # noqa: D102
        return DenseRows(self.matrix.to(dtype))

    def block(self, rows: slice) -> "DenseRows":  # noqa: D102
        return DenseRows(self.matrix[rows])

    def take(self, index: Tensor) -> "DenseRows":  # noqa: D102
        return DenseRows(self.matrix.index_select(0, index))

    def joined(self, others: list[RowMatrix]) -> "DenseRows":  # noqa: D102
        return DenseRows(torch.cat([self.matrix, *(other.dense() for other in others)]))

    def dense(self) -> Tensor:  # noqa: D102
        return self.matrix

    def times(self, right: Tensor) -> Tensor:  # noqa: D102
        return self.matrix @ right

    def met_by(self, left: Tensor) -> Tensor:  # noqa: D102
        return left @ self.matrix.T

    def scaled(self, scale: Tensor) -> "DenseRows":  # noqa: D102
        return DenseRows(self.matrix * scale)

    def squared(self) -> "DenseRows":  # noqa: D102
        return DenseRows(self.matrix.square())

    def column_sums(self, weights: Tensor) -> Tensor:  # noqa: D102
        return weights @ self.matrix

    def products(self, other: RowMatrix, i: Tensor, j: Tensor) -> "DenseRows":  # noqa: D102
        return DenseRows(self.take(i).matrix * other.take(j).dense())

    def dots(self, other: RowMatrix, i: Tensor, j: Tensor) -> Tensor:  # noqa: D102
        if other.is_stored_by_entries:
            return other.dots(self, j, i)
        at_once = entries_at_once(i.device) // 4  # what a cache holds
        step = max(1, at_once // max(1, self.n_columns))
        parts = [
            (self.matrix.index_select(0, a) * other.dense().index_select(0, b)).sum(1)
            for a, b in zip(torch.split(i, step), torch.split(j, step))
        ]
        return torch.cat([self.matrix.new_empty(0), *parts])

    @property
    def row_length(self) -> float:  # noqa: D102
        return float(self.n_columns)


def row_matrix(
    matrix: Any, *, device: str | torch.device = "cpu", dtype: torch.dtype | None = None
) -> RowMatrix:
    """Return a NumPy array, a tensor or a scipy CSR matrix as rows on a device."""
    if sp.issparse(matrix):
        values = to_device(matrix.data, device)
        columns = to_device(matrix.indices.astype(np.int64), device)
        starts = to_device(matrix.indptr.astype(np.int64), device)
        rows: RowMatrix = SparseRows(values, columns, starts, int(matrix.shape[1]))
    elif isinstance(matrix, Tensor):
        rows = DenseRows(matrix.to(device))
    else:
        rows = DenseRows(to_device(np.asarray(matrix), device))
    return rows if dtype is None else rows.to(dtype)
