"""Compressed rows whose structure is built once and whose values may change each step."""

import functools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

# --- csr: Compressed rows whose structure is built once and whose values may change each step


@dataclass(frozen=True)
class CsrPattern:
    """Which entries a sparse matrix has, and which of the caller's values each one shows.

    Parameters
    ----------
    shape
        Rows and columns of the matrix.
    offsets, columns
        The usual compressed rows.
    source
        Entry ``e`` holds ``values[source[e]]`` of whatever values it is multiplied with.
    """

    shape: tuple[int, int]
    offsets: Int[Tensor, "r1"]
    columns: Int[Tensor, "e"]
    source: Int[Tensor, "e"]

    @classmethod
    def build(
        cls,
        n_rows: int,
        n_columns: int,
        rows: Int[Tensor, "e"],
        columns: Int[Tensor, "e"],
        source: Int[Tensor, "e"],
    ) -> "CsrPattern":
        """Sort the entries by row, then column."""
        order = torch.argsort(rows * n_columns + columns, stable=True)
        offsets = torch.zeros(n_rows + 1, dtype=torch.int64, device=rows.device)
        offsets = offsets.index_add_(0, rows + 1, torch.ones_like(rows)).cumsum(0)
        return cls.compressed((n_rows, n_columns), offsets, columns[order], source[order])

    @classmethod
    def compressed(
        cls,
        shape: tuple[int, int],
        offsets: Int[Tensor, "r1"],
        columns: Int[Tensor, "e"],
        source: Int[Tensor, "e"],
    ) -> "CsrPattern":
        """Take compressed rows as they are; indices are halved where they fit, for speed."""
        fits = len(columns) < 2**31 and max(shape) < 2**31
        dtype = torch.int32 if fits else torch.int64
        return cls(shape, offsets.to(dtype), columns.to(dtype).contiguous(), source)

    def transposed(self) -> "CsrPattern":
        """Return the pattern of the transposed matrix, over the same values."""
        n_rows, n_columns = self.shape
        rows = torch.repeat_interleave(
            torch.arange(n_rows, device=self.columns.device), self.offsets.diff()
        )
        return CsrPattern.build(n_columns, n_rows, self.columns.long(), rows, self.source)

    def matmul(self, values: Float[Tensor, "v"], x: Float[Tensor, "c d"]) -> Float[Tensor, "r d"]:
        """Return the product with a dense matrix; no gradient flows through it."""
        return product(self.filled(values.index_select(0, self.source)), x.detach())

    def filled(self, entries: Float[Tensor, "e"]) -> "CsrMatrix":
        """Return the matrix with these entries in the order of the pattern."""
        return CsrMatrix(self, entries)

    def matrix(self, entries: Float[Tensor, "e"]) -> Tensor:
        """Return the same as torch knows it."""
        hear_beta_warning()
        return torch.sparse_csr_tensor(
            self.offsets, self.columns, entries, self.shape, check_invariants=False
        )


@dataclass(frozen=True, eq=False)
class CsrMatrix:
    """A pattern and its entries, in the pattern's order."""

    pattern: CsrPattern
    entries: Float[Tensor, "e"]

    @classmethod
    def from_scipy(cls, matrix: sp.csr_matrix) -> "CsrMatrix":
        """Take a scipy matrix as it is, on the host."""
        offsets, columns = (torch.from_numpy(a) for a in (matrix.indptr, matrix.indices))
        order = torch.arange(matrix.nnz)
        pattern = CsrPattern.compressed(matrix.shape, offsets, columns, order)
        return cls(pattern, torch.from_numpy(matrix.data))

    @cached_property
    def tensor(self) -> Tensor:
        """The same as torch knows it."""
        return self.pattern.matrix(self.entries)


def product(matrix: CsrMatrix, x: Float[Tensor, "c d"]) -> Float[Tensor, "r d"]:
    """Return the product with a dense matrix."""
    if _is_single_on_host(matrix, x):
        return _by_bags(matrix, x)
    return added(x.new_zeros(matrix.pattern.shape[0], x.shape[1]), matrix, x)


def added(
    total: Float[Tensor, "r d"],
    matrix: CsrMatrix,
    x: Float[Tensor, "c d"],
    out: Float[Tensor, "r d"] | None = None,
) -> Float[Tensor, "r d"]:
    """Return ``total`` plus the product with a dense matrix.

    The result may be written into ``out``, or into ``total`` where there is no ``out``.
    """
    out = total if out is None else out
    if _is_single_on_host(matrix, x):
        return _by_bags(matrix, x).add_(total)
    if out is not total:
        out.copy_(total)
    return torch.addmm(out, matrix.tensor, x, out=out)


def _is_single_on_host(matrix: CsrMatrix, x: Tensor) -> bool:
    return x.dtype == matrix.entries.dtype == torch.float32 and not x.is_cuda


def _by_bags(matrix: CsrMatrix, x: Tensor) -> Tensor:
    """Take the rows of ``x`` for words, and each row of the matrix for a weighted bag of them.

    Sums over bags of words have vector kernels for every processor; MKL's sparse products have
    them for Intel's, and take two to three times as long on others.
    """
    p = matrix.pattern
    return functional.embedding_bag(
        p.columns,
        x.contiguous(),
        p.offsets,
        mode="sum",
        per_sample_weights=matrix.entries,
        include_last_offset=True,
    )


@functools.cache
def hear_beta_warning() -> None:
    """Let torch say once per process, unheard, that its CSR support is beta and unchecked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        offsets = torch.zeros(2, dtype=torch.int32)
        torch.sparse_csr_tensor(offsets, offsets[:0], offsets[:0], (1, 1), check_invariants=False)


# --- row_base: What a matrix of signal rows can do, whether it is dense or stored by entries

BLOCK_BYTES = 64 * 2**20
"""Memory for one block of products on the host."""

DEVICE_BYTES = 4 * 2**30
"""The same on a device that is not the host."""

DENSE_FROM = 0.05
"""Share of stored entries from which a dense product is the faster one."""

_ENTRIES = 2**18  # entries of pairs that are looked at together on the host


class RowMatrix(ABC):
    """A matrix that is read row by row; device and dtype are those of its tensors."""

    n_columns: int
    is_stored_by_entries: bool = False

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """Return what the matrix consists of, to be sent to another process."""

    @abstractmethod
    def like(self, tensors: tuple[Tensor, ...]) -> "RowMatrix":
        """Return the matrix of the same width that consists of these tensors."""

    @abstractmethod
    def to(self, dtype: torch.dtype) -> "RowMatrix":
        """Return the same numbers in another precision."""

    @abstractmethod
    def block(self, rows: slice) -> "RowMatrix":
        """Return consecutive rows."""

    @abstractmethod
    def take(self, index: Tensor) -> "RowMatrix":
        """Return the rows with these numbers."""

    @abstractmethod
    def joined(self, others: "list[RowMatrix]") -> "RowMatrix":
        """Return these rows, then those of others that are stored alike."""

    @abstractmethod
    def dense(self) -> Tensor:
        """Return all entries."""

    @abstractmethod
    def times(self, right: Tensor) -> Tensor:
        """Return the product with a dense matrix."""

    @abstractmethod
    def met_by(self, left: Tensor) -> Tensor:
        r"""Return :math:`L X^\top`: dense rows times these."""

    @abstractmethod
    def scaled(self, scale: Tensor) -> "RowMatrix":
        """Return the matrix with its columns multiplied."""

    @abstractmethod
    def squared(self) -> "RowMatrix":
        """Return the squares of all entries."""

    @abstractmethod
    def column_sums(self, weights: Tensor) -> Tensor:
        r"""Return :math:`\sum_i w_i x_{ic}` for every column."""

    @abstractmethod
    def products(self, other: "RowMatrix", i: Tensor, j: Tensor) -> "RowMatrix":
        r"""Return :math:`x_{ic}\,z_{jc}`, a row for every pair (i, j)."""

    @abstractmethod
    def dots(self, other: "RowMatrix", i: Tensor, j: Tensor) -> Tensor:
        r"""Return :math:`x_i \cdot z_j` for every pair (i, j)."""

    @property
    @abstractmethod
    def row_length(self) -> float:
        """Mean number of stored entries of a row."""

    @property
    def device(self) -> torch.device:
        """Where the numbers lie."""
        return self.tensors()[0].device

    @property
    def dtype(self) -> torch.dtype:
        """Their precision."""
        return self.tensors()[0].dtype

    def lengths(self) -> Tensor:
        """Return the squared length of each row."""
        every = torch.arange(len(self), device=self.device)
        return self.dots(self, every, every)


def to_device(array: np.ndarray, device: str | torch.device) -> Tensor:
    """Return a tensor on the device; torch refuses to share arrays that may not be written."""
    own = np.require(array, requirements=["C", "W"])
    return torch.from_numpy(own).to(device)


def block_bytes_of(device: torch.device, on_host: int = BLOCK_BYTES) -> int:
    """Return the memory for one block of products on a device."""
    return on_host if device.type == "cpu" else DEVICE_BYTES


def entries_at_once(device: torch.device) -> int:
    """Return how many entries of pairs are looked at together on a device."""
    return _ENTRIES if device.type == "cpu" else 256 * _ENTRIES


# --- sparse_rows: Rows stored by their entries

_LOOKED_UP = 2**23  # bytes of dense rows that entries are looked up in: new memory is slow


@dataclass(frozen=True, eq=False)
class SparseRows(RowMatrix):
    """Compressed rows: ``columns[starts[i]:starts[i + 1]]`` have entries in row ``i``.

    Examples
    --------
    >>> from glnn.graph.rows import row_matrix
    >>> rows = row_matrix(sp.csr_matrix(np.array([[0.0, 2.0], [1.0, 0.0]])))
    >>> rows.dots(rows, torch.tensor([0, 0]), torch.tensor([0, 1]))
    tensor([4., 0.], dtype=torch.float64)
    """

    values: Tensor
    columns: Tensor
    starts: Tensor
    width: int

    is_stored_by_entries = True

    @property
    def n_columns(self) -> int:  # type: ignore[override] # noqa: D102
        return self.width

    def __len__(self) -> int:
        return len(self.starts) - 1

    def tensors(self) -> tuple[Tensor, ...]:  # noqa: D102
        return self.values, self.columns, self.starts

    def like(self, tensors: tuple[Tensor, ...]) -> "SparseRows":  # noqa: D102
        values, columns, starts = tensors
        return SparseRows(values, columns, starts, self.width)

    def to(self, dtype: torch.dtype) -> "SparseRows":  # noqa: D102
        return SparseRows(self.values.to(dtype), self.columns, self.starts, self.width)

    def block(self, rows: slice) -> "SparseRows":  # noqa: D102
        first, last, _ = rows.indices(len(self))
        starts = self.starts[first : last + 1]
        low, high = int(starts[0]), int(starts[-1])
        return SparseRows(self.values[low:high], self.columns[low:high], starts - low, self.width)

    def take(self, index: Tensor) -> "SparseRows":  # noqa: D102
        place, lengths = self.entries_of(index)
        starts = torch.zeros(len(index) + 1, dtype=torch.int64, device=index.device)
        torch.cumsum(lengths, 0, out=starts[1:])
        return SparseRows(
            self.values.index_select(0, place),
            self.columns.index_select(0, place),
            starts,
            self.width,
        )

    def joined(self, others: list[RowMatrix]) -> "SparseRows":  # noqa: D102
        every = [self.tensors(), *(other.tensors() for other in others)]
        values, columns = (torch.cat([part[k] for part in every]) for k in range(2))
        lengths = torch.cat([part[2].diff() for part in every])
        starts = torch.zeros(len(lengths) + 1, dtype=torch.int64, device=lengths.device)
        torch.cumsum(lengths, 0, out=starts[1:])
        return SparseRows(values, columns, starts, self.width)

    def entries_of(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the places of the entries of some rows, and how many each row has."""
        first = self.starts.index_select(0, index)
        lengths = self.starts.index_select(0, index + 1) - first
        shift = first - (lengths.cumsum(0) - lengths)
        place = torch.repeat_interleave(shift, lengths)
        return place.add_(torch.arange(len(place), device=index.device)), lengths

    def _row_of_entries(self) -> Tensor:
        every = torch.arange(len(self), device=self.values.device)
        return torch.repeat_interleave(every, self.starts.diff(), output_size=len(self.values))

    def dense(self) -> Tensor:  # noqa: D102
        place = self._row_of_entries() * self.width + self.columns
        flat = self.values.new_zeros(len(self) * self.width)
        return flat.index_add_(0, place, self.values).view(len(self), self.width)

    @property
    def is_thin(self) -> bool:
        """Whether a sparse product beats a dense one."""
        few = len(self.values) < DENSE_FROM * len(self) * self.width
        return few and self.values.device.type == "cpu"

    def csr(self) -> CsrMatrix:
        """Return the same as a matrix whose structure is known once."""
        shape = (len(self), self.width)
        return CsrPattern.compressed(shape, self.starts, self.columns, self.columns).filled(
            self.values
        )

    def times(self, right: Tensor) -> Tensor:  # noqa: D102
        if self.is_thin or right.shape[1] == 1:
            return product(self.csr(), right.contiguous())
        parts = [block @ right for block in self._dense_blocks()]
        return parts[0] if len(parts) == 1 else torch.cat([right[:0], *parts])

    def met_by(self, left: Tensor) -> Tensor:  # noqa: D102
        if self.is_thin:
            return self.times(left.T.contiguous()).T.contiguous()
        return torch.cat([left[:, :0], *(left @ block.T for block in self._dense_blocks())], 1)

    def _dense_blocks(self) -> Iterator[Tensor]:
        """Yield all rows, as many at a time as there is room for."""
        step = max(1, block_bytes_of(self.values.device) // (8 * max(1, self.width)))
        for first in range(0, len(self), step):
            yield self.block(slice(first, first + step)).dense()

    def scaled(self, scale: Tensor) -> "SparseRows":  # noqa: D102
        return self.like(
            (self.values * scale.index_select(0, self.columns), self.columns, self.starts)
        )

    def squared(self) -> "SparseRows":  # noqa: D102
        return self.like((self.values.square(), self.columns, self.starts))

    def column_sums(self, weights: Tensor) -> Tensor:  # noqa: D102
        total = self.values.new_zeros(self.width)
        parts = self.values * weights.index_select(0, self._row_of_entries())
        return total.index_add_(0, self.columns, parts)

    def products(self, other: RowMatrix, i: Tensor, j: Tensor) -> "SparseRows":  # noqa: D102
        columns, values, counts = [self.columns[:0]], [self.values[:0]], [self.columns[:0]]
        for met in _met(self, other, i, j):
            found = met.dense.take(met.place).mul_(met.values)
            kept = torch.nonzero(found).view(-1)
            columns.append(met.columns[kept])
            values.append(found[kept])
            ends = torch.searchsorted(kept, met.starts)  # entries kept before each pair
            counts.append(ends.diff())
        starts = torch.zeros(len(i) + 1, dtype=torch.int64, device=i.device)
        torch.cumsum(torch.cat(counts), 0, out=starts[1:])
        return SparseRows(torch.cat(values), torch.cat(columns), starts, self.width)

    def dots(self, other: RowMatrix, i: Tensor, j: Tensor) -> Tensor:  # noqa: D102
        parts = [torch.mv(met.matrix(), met.dense) for met in _met(self, other, i, j)]
        return torch.cat([self.values[:0], *parts])

    @property
    def row_length(self) -> float:  # noqa: D102
        return len(self.values) / max(1, len(self))


@dataclass(frozen=True, eq=False)
class _Met:
    """The stored entries of one end of some pairs, and where to look for the other end's.

    Entry ``e`` of pair ``p``, in ``starts[p]:starts[p + 1]``, has its value and column here and
    meets ``dense[place[e]]``.
    """

    starts: Tensor
    columns: Tensor
    values: Tensor
    place: Tensor
    dense: Tensor

    def matrix(self) -> Tensor:
        """Return the entries as rows over the numbers they meet."""
        shape = (len(self.starts) - 1, len(self.dense))
        pattern = CsrPattern.compressed(shape, self.starts, self.place, self.place)
        return pattern.matrix(self.values)


def _met(left: SparseRows, right: RowMatrix, i: Tensor, j: Tensor) -> Iterator[_Met]:
    """Yield the entries of some pairs at a time.

    The stored entries of one row are looked up in the other, which is made dense: the one whose
    number changes less often, where both are stored by entries.
    """
    if isinstance(right, SparseRows):
        left, right, i, j = right, left, j, i
    step = max(1, int(entries_at_once(i.device) / max(1.0, left.row_length)))
    room, first = block_bytes_of(i.device, _LOOKED_UP) // 8, 0
    while first < len(i):
        far, turn = torch.unique_consecutive(j[first : first + step], return_inverse=True)
        if len(far) * left.width > room and step > 1:
            step //= 2
            continue
        entries, lengths = left.entries_of(i[first : first + step])
        starts = torch.zeros(len(lengths) + 1, dtype=torch.int64, device=i.device)
        torch.cumsum(lengths, 0, out=starts[1:])
        columns = left.columns.index_select(0, entries)
        rows = torch.repeat_interleave(turn * left.width, lengths, output_size=len(entries))
        values, dense = left.values.index_select(0, entries), right.take(far).dense().reshape(-1)
        yield _Met(starts, columns, values, rows.add_(columns), dense)
        first += step


# --- row_matrix: Matrices of signal rows from what users have, and those with all entries


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


# --- dense_rows: Rows of a matrix as an array, whatever they are stored in


def dense_rows(matrix: Any) -> np.ndarray:
    """Return an array of a dense or sparse matrix; it may share its memory and is not written to.

    A CSR matrix with every entry stored is an array already.

    Examples
    --------
    >>> dense_rows(sp.csr_matrix([[0.0, 2.0]]))
    array([[0., 2.]])
    """
    if not sp.issparse(matrix):
        return np.asarray(matrix)
    is_full = matrix.format == "csr" and matrix.nnz == matrix.shape[0] * matrix.shape[1]
    if is_full and matrix.has_canonical_format:
        return np.asarray(matrix.data.reshape(matrix.shape))
    return np.asarray(matrix.toarray())
