"""Matrices stored by rows, in PyTorch: :class:`DenseRows`, and :class:`CsrMatrix` if sparse.

Both have the methods that signals need. A CSR matrix is also the storage of graphs, and of sparse
features in a network.
"""

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor
from torch.nn import functional

Device: TypeAlias = str | torch.device

BLOCK_BYTES = 64 * 2**20  # memory for one block of products on the CPU
DEVICE_BYTES = 4 * 2**30  # the same on another device
DENSE_THRESHOLD = 0.05  # share of nonzero entries above which a dense product is faster
_BLOCK_ENTRIES = 2**18  # entries of pairs that are processed together on the CPU
_LOOKUP_BYTES = 2**23  # dense rows for lookups; larger ones are slow, as memory is newly allocated


def to_device(array: np.ndarray, device: Device) -> Tensor:
    """Return an array as a tensor on a device; read-only arrays are copied, as torch demands."""
    own = np.require(array, requirements=["C", "W"])
    return torch.from_numpy(own).to(device)


def block_bytes_on(device: torch.device, cpu_bytes: int | None = None) -> int:
    """Return the memory for one block of products on a device."""
    return (cpu_bytes or BLOCK_BYTES) if device.type == "cpu" else DEVICE_BYTES


def block_entries_on(device: torch.device) -> int:
    """Return how many entries of pairs are processed together on a device."""
    return _BLOCK_ENTRIES if device.type == "cpu" else 256 * _BLOCK_ENTRIES


class _Rows:
    """What dense and sparse rows have in common."""

    values: Tensor

    @property
    def device(self) -> torch.device:
        """Device of the values."""
        return self.values.device

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the values."""
        return self.values.dtype

    @property
    def n_stored(self) -> int:
        """Number of stored entries."""
        return self.values.numel()


@dataclass(frozen=True, eq=False)
class DenseRows(_Rows):
    """Rows of a dense matrix."""

    values: Tensor

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_columns(self) -> int:
        """Number of columns."""
        return self.values.shape[1]

    def tensors(self) -> tuple[Tensor, ...]:
        """Return the tensors that store the matrix, to be sent to another process."""
        return (self.values,)

    def with_tensors(self, tensors: tuple[Tensor, ...]) -> "DenseRows":
        """Return a matrix of the same type and width with these tensors."""
        return DenseRows(*tensors)

    def to(self, dtype: torch.dtype) -> "DenseRows":
        """Return the matrix in another precision."""
        return DenseRows(self.values.to(dtype))

    def block(self, rows: slice) -> "DenseRows":
        """Return consecutive rows."""
        return DenseRows(self.values[rows])

    def take(self, index: Tensor) -> "DenseRows":
        """Return the rows with these indices."""
        return DenseRows(self.values.index_select(0, index))

    def concatenate(self, others: "list[Any]") -> "DenseRows":
        """Return these rows followed by those of matrices of the same type."""
        return DenseRows(torch.cat([self.values, *(other.to_dense() for other in others)]))

    def to_dense(self) -> Tensor:
        """Return the matrix as a dense tensor."""
        return self.values

    def matmul(self, right: Tensor) -> Tensor:
        r"""Return :math:`X R` for a dense matrix."""
        return self.values @ right

    def left_matmul(self, left: Tensor) -> Tensor:
        r"""Return :math:`L X^\top` for a dense matrix."""
        return left @ self.values.T

    def scale_columns(self, scale: Tensor) -> "DenseRows":
        """Return the matrix with each column multiplied by a number."""
        return DenseRows(self.values * scale)

    def square(self) -> "DenseRows":
        """Return the matrix of squared entries."""
        return DenseRows(self.values.square())

    def column_sums(self, weights: Tensor) -> Tensor:
        r"""Return :math:`\sum_i w_i x_{ic}` for every column."""
        return weights @ self.values

    def pair_products(self, other: "RowMatrix", i: Tensor, j: Tensor) -> "DenseRows":
        r"""Return :math:`x_{ic}\,z_{jc}`, one row for each pair (i, j)."""
        return DenseRows(self.take(i).values * other.take(j).to_dense())

    def pair_dots(self, other: "RowMatrix", i: Tensor, j: Tensor) -> Tensor:
        r"""Return :math:`x_i \cdot z_j` for each pair (i, j)."""
        if isinstance(other, CsrMatrix):
            return other.pair_dots(self, j, i)
        n_entries = block_entries_on(i.device) // 4  # fits in the cache
        step = max(1, n_entries // max(1, self.n_columns))
        parts = [
            (self.values.index_select(0, a) * other.values.index_select(0, b)).sum(1)
            for a, b in zip(torch.split(i, step), torch.split(j, step))
        ]
        return torch.cat([self.values.new_empty(0), *parts])


@dataclass(frozen=True, eq=False)
class CsrMatrix(_Rows):
    """Compressed sparse rows: row ``i`` has the entries from starts[i] to starts[i + 1].

    Where the values of a matrix change but not its pattern, the pattern is a matrix whose values
    are the numbers of the values.
    """

    values: Tensor
    columns: Tensor
    starts: Tensor
    n_columns: int

    @classmethod
    def from_entries(
        cls, shape: tuple[int, int], rows: Tensor, columns: Tensor, values: Tensor
    ) -> "CsrMatrix":
        """Build the matrix from a list of entries in any order; its indices are compact."""
        order = torch.argsort(rows * shape[1] + columns, stable=True)
        starts = _starts(torch.bincount(rows, minlength=shape[0]))
        found = cls(values[order], columns[order], starts, shape[1])
        return CsrMatrix(found.values, *found._compact_indices, shape[1])

    @classmethod
    def from_scipy(
        cls, matrix: sp.csr_matrix, device: Device = "cpu", dtype: torch.dtype | None = None
    ) -> "CsrMatrix":
        """Return a scipy matrix on a device, without a copy where possible."""
        parts = (to_device(part, device) for part in (matrix.data, matrix.indices, matrix.indptr))
        values, columns, starts = parts
        return cls(values.to(dtype or values.dtype), columns, starts, int(matrix.shape[1]))

    def __len__(self) -> int:
        return len(self.starts) - 1

    @cached_property
    def _compact_indices(self) -> tuple[Tensor, Tensor]:
        """Columns and starts as int32 where that suffices: products are faster."""
        fits = max(self.n_stored, len(self), self.n_columns) < 2**31
        dtype = torch.int32 if fits else torch.int64
        return self.columns.to(dtype), self.starts.to(dtype)

    @cached_property
    def tensor(self) -> Tensor:
        """The matrix as a torch CSR tensor."""
        _silence_csr_warning()
        columns, starts = self._compact_indices
        shape = (len(self), self.n_columns)
        return torch.sparse_csr_tensor(starts, columns, self.values, shape, check_invariants=False)

    def spmm(self, x: Tensor) -> Tensor:
        """Return the product with a dense matrix by a sparse kernel."""
        if x.is_cuda or not x.dtype == self.values.dtype == torch.float32:
            return self.tensor @ x
        # A row of the matrix is a weighted bag of rows of x. embedding_bag has vectorized kernels
        # for every processor; MKL's sparse products take two to three times as long on others than
        # Intel's.
        columns, starts = self._compact_indices
        how: Any = {"mode": "sum", "per_sample_weights": self.values, "include_last_offset": True}
        return functional.embedding_bag(columns, x.contiguous(), starts, **how)

    def transpose(self) -> "CsrMatrix":
        """Return the transposed matrix."""
        shape = (self.n_columns, len(self))
        columns, rows = self.columns.long(), self.row_of_entries()
        return CsrMatrix.from_entries(shape, columns, rows, self.values)

    def with_values(self, values: Tensor) -> "CsrMatrix":
        """Return a matrix with the same pattern and other values."""
        return CsrMatrix(values, self.columns, self.starts, self.n_columns)

    def tensors(self) -> tuple[Tensor, ...]:  # noqa: D102
        return self.values, self.columns, self.starts

    def with_tensors(self, tensors: tuple[Tensor, ...]) -> "CsrMatrix":  # noqa: D102
        values, columns, starts = tensors
        return CsrMatrix(values, columns, starts, self.n_columns)

    def to(self, dtype: torch.dtype) -> "CsrMatrix":  # noqa: D102
        return self.with_values(self.values.to(dtype))

    def block(self, rows: slice) -> "CsrMatrix":  # noqa: D102
        first, last, _ = rows.indices(len(self))
        starts = self.starts[first : last + 1]
        low, high = int(starts[0]), int(starts[-1])
        return self.with_tensors((self.values[low:high], self.columns[low:high], starts - low))

    def take(self, index: Tensor) -> "CsrMatrix":  # noqa: D102
        place, lengths = self.locate_entries(index)
        stored = (part.index_select(0, place) for part in (self.values, self.columns))
        return self.with_tensors((*stored, _starts(lengths)))

    def concatenate(self, others: list[Any]) -> "CsrMatrix":  # noqa: D102
        every = [self.tensors(), *(other.tensors() for other in others)]
        values, columns = (torch.cat([part[k] for part in every]) for k in range(2))
        lengths = torch.cat([starts.diff() for _, _, starts in every])
        return self.with_tensors((values, columns, _starts(lengths)))

    def locate_entries(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the positions of the entries of some rows, and the number of entries of each."""
        first = self.starts.index_select(0, index)
        lengths = self.starts.index_select(0, index + 1) - first
        shift = first - (lengths.cumsum(0) - lengths)
        place = torch.repeat_interleave(shift, lengths)
        return place.add_(torch.arange(len(place), device=index.device)), lengths

    def row_of_entries(self) -> Tensor:
        """Return the number of the row of each stored entry."""
        every = torch.arange(len(self), device=self.values.device)
        return torch.repeat_interleave(every, self.starts.diff(), output_size=len(self.values))

    def to_dense(self) -> Tensor:  # noqa: D102
        return self.tensor.to_dense()

    @property
    def _is_very_sparse(self) -> bool:  # whether a sparse product is faster than a dense one
        few = len(self.values) < DENSE_THRESHOLD * len(self) * self.n_columns
        return few and self.values.device.type == "cpu"

    def matmul(self, right: Tensor) -> Tensor:  # noqa: D102
        if self._is_very_sparse or right.shape[1] == 1:
            return self.spmm(right.contiguous())
        parts = [block @ right for block in self._dense_blocks()]
        return parts[0] if len(parts) == 1 else torch.cat([right[:0], *parts])

    def left_matmul(self, left: Tensor) -> Tensor:  # noqa: D102
        if self._is_very_sparse:
            return self.matmul(left.T.contiguous()).T.contiguous()
        return torch.cat([left[:, :0], *(left @ block.T for block in self._dense_blocks())], 1)

    def _dense_blocks(self) -> Iterator[Tensor]:
        """Yield all rows as dense blocks that fit in the memory of one block."""
        step = max(1, block_bytes_on(self.values.device) // (8 * max(1, self.n_columns)))
        for first in range(0, len(self), step):
            yield self.block(slice(first, first + step)).to_dense()

    def scale_columns(self, scale: Tensor) -> "CsrMatrix":  # noqa: D102
        return self.with_values(self.values * scale.index_select(0, self.columns))

    def square(self) -> "CsrMatrix":  # noqa: D102
        return self.with_values(self.values.square())

    def column_sums(self, weights: Tensor) -> Tensor:  # noqa: D102
        total = self.values.new_zeros(self.n_columns)
        parts = self.values * weights.index_select(0, self.row_of_entries())
        return total.index_add_(0, self.columns, parts)

    def pair_products(self, other: "RowMatrix", i: Tensor, j: Tensor) -> "CsrMatrix":  # noqa: D102
        columns, values, counts = [self.columns[:0]], [self.values[:0]], [self.columns[:0]]
        for starts, at, stored, place, dense in _iterate_pair_entries(self, other, i, j):
            found = dense.take(place).mul_(stored)
            kept = torch.nonzero(found).view(-1)
            columns.append(at[kept])
            values.append(found[kept])
            counts.append(torch.searchsorted(kept, starts).diff())  # entries kept of each pair
        entries = torch.cat(values), torch.cat(columns)
        return self.with_tensors((*entries, _starts(torch.cat(counts))))

    def pair_dots(self, other: "RowMatrix", i: Tensor, j: Tensor) -> Tensor:  # noqa: D102
        parts = []
        for starts, _, stored, place, dense in _iterate_pair_entries(self, other, i, j):
            parts.append(torch.mv(CsrMatrix(stored, place, starts, len(dense)).tensor, dense))
        return torch.cat([self.values[:0], *parts])


RowMatrix: TypeAlias = DenseRows | CsrMatrix
Product: TypeAlias = Callable[[Tensor], Tensor]  # with a matrix


@functools.cache
def _silence_csr_warning() -> None:
    """Trigger torch's once-per-process warning that CSR tensors are in beta, and suppress it."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        offsets = torch.zeros(2, dtype=torch.int32)
        torch.sparse_csr_tensor(offsets, offsets[:0], offsets[:0], (1, 1), check_invariants=False)


def _starts(lengths: Tensor) -> Tensor:
    """Return where rows of these lengths start, then their total length."""
    return functional.pad(lengths.cumsum(0), (1, 0))


def _iterate_pair_entries(
    left: CsrMatrix, right: "RowMatrix", i: Tensor, j: Tensor
) -> Iterator[tuple[Tensor, ...]]:
    """Yield the entries of the pairs block by block.

    The stored entries of one row are looked up in the other row, which is made dense. If both are
    sparse, that is the row whose index changes less often. Pair ``p`` of a block has the entries
    from starts[p] to starts[p + 1]; each comes with its column, its value and its place in the
    dense rows, which are flat.
    """
    if isinstance(right, CsrMatrix):
        left, right, i, j = right, left, j, i
    step = max(1, int(block_entries_on(i.device) / max(1.0, left.n_stored / max(1, len(left)))))
    room, first = block_bytes_on(i.device, _LOOKUP_BYTES) // 8, 0
    while first < len(i):
        far, turn = torch.unique_consecutive(j[first : first + step], return_inverse=True)
        if len(far) * left.n_columns > room and step > 1:
            step //= 2
            continue
        entries, lengths = left.locate_entries(i[first : first + step])
        columns = left.columns.index_select(0, entries)
        rows = torch.repeat_interleave(turn * left.n_columns, lengths, output_size=len(entries))
        values, dense = left.values.index_select(0, entries), right.take(far).to_dense().reshape(-1)
        yield _starts(lengths), columns, values, rows.add_(columns), dense
        first += step


def differentiable_product(x: Tensor, product: Product, transposed: Product) -> Tensor:
    r"""Return :math:`A x` with the gradient :math:`A^\top g`, where autograd knows neither."""
    return _Product.apply(x, product, transposed)  # type: ignore[no-any-return, no-untyped-call]


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, product: Product, transposed: Product) -> Tensor:
        ctx.transposed = transposed
        return product(x.detach())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return ctx.transposed(grads[0].detach().contiguous()), None, None


def as_row_matrix(
    matrix: Any, *, device: Device = "cpu", dtype: torch.dtype | None = None
) -> RowMatrix:
    """Return a NumPy array, a tensor or a scipy CSR matrix as a row matrix on a device."""
    if sp.issparse(matrix):
        csr = CsrMatrix.from_scipy(matrix, device)
        rows: RowMatrix = csr.with_tensors((csr.values, csr.columns.long(), csr.starts.long()))
    elif isinstance(matrix, Tensor):
        rows = DenseRows(matrix.to(device))
    else:
        rows = DenseRows(to_device(np.asarray(matrix), device))
    return rows if dtype is None else rows.to(dtype)


def to_dense_array(matrix: Any) -> np.ndarray:
    """Return a dense or sparse matrix as an array, which may share its memory: do not write to it.

    A CSR matrix that stores every entry is not copied.
    """
    if not sp.issparse(matrix):
        return np.asarray(matrix)
    is_full = matrix.format == "csr" and matrix.nnz == matrix.shape[0] * matrix.shape[1]
    if is_full and matrix.has_canonical_format:
        return np.asarray(matrix.data.reshape(matrix.shape))
    return np.asarray(matrix.toarray())
