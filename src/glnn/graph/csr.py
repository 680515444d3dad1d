"""Compressed rows whose structure is built once and whose values may change each step."""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from glnn.graph.row_kernel import LONGEST, is_kernel_ready, row_product

_CACHED = 2**23
"""Bytes that a processor's cache holds beside a graph."""

_NARROW = 16
"""Columns of a block: a row of it is what one access to memory brings."""


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
        if self.has_short_rows(x):
            return row_product(
                self.offsets,
                self.columns,
                values,
                x.detach().contiguous(),
                longest=self.longest,
                source=self.source,
            )
        return product(self.filled(values.index_select(0, self.source)), x.detach())

    def filled(self, entries: Float[Tensor, "e"]) -> "CsrMatrix":
        """Return the matrix with these entries in the order of the pattern."""
        return CsrMatrix(self, entries)

    def matrix(self, entries: Float[Tensor, "e"]) -> Tensor:
        """Return the same as torch knows it."""
        _hear_beta_warning()
        return torch.sparse_csr_tensor(
            self.offsets, self.columns, entries, self.shape, check_invariants=False
        )

    def has_short_rows(self, x: Float[Tensor, "c d"]) -> bool:
        """Say whether a product with ``x`` is one for the kernel of short rows."""
        return is_kernel_ready(x) and self.longest <= LONGEST

    @cached_property
    def longest(self) -> int:
        """Number of entries of the longest row."""
        return int(self.offsets.diff().max()) if len(self.offsets) > 1 else 0


@dataclass(frozen=True, eq=False)
class CsrMatrix:
    """A pattern and its entries, in the pattern's order."""

    pattern: CsrPattern
    entries: Float[Tensor, "e"]

    @cached_property
    def tensor(self) -> Tensor:
        """The same as torch knows it."""
        return self.pattern.matrix(self.entries)


def product(matrix: CsrMatrix, x: Float[Tensor, "c d"]) -> Float[Tensor, "r d"]:
    """Return the product with a dense matrix, written where it is summed up."""
    if matrix.pattern.has_short_rows(x):
        return _by_rows(matrix, x)

    def of_block(block: Tensor) -> Tensor:
        return added(block.new_zeros(matrix.pattern.shape[0], block.shape[1]), matrix, block)

    return in_blocks(of_block, x)


def in_blocks(
    operation: Callable[[Tensor], Tensor], x: Float[Tensor, "c d"]
) -> Float[Tensor, "r d"]:
    """Apply what acts on each column alone; a wide ``x`` goes through it in narrow blocks.

    A sparse product reads a row of ``x`` once for each stored entry of its column. Where ``x`` is
    larger than a processor's cache, a block of it that fits is read from there.
    """
    n_columns = x.shape[1]
    if x.is_cuda or n_columns <= _NARROW or x.nbytes <= _CACHED:
        return operation(x)
    blocks = (x[:, first : first + _NARROW] for first in range(0, n_columns, _NARROW))
    return torch.cat([operation(block.contiguous()) for block in blocks], 1)


def added(
    total: Float[Tensor, "r d"],
    matrix: CsrMatrix,
    x: Float[Tensor, "c d"],
    out: Float[Tensor, "r d"] | None = None,
) -> Float[Tensor, "r d"]:
    """Add the product with a dense matrix to ``total``: in place, or into ``out``."""
    out = total if out is None else out
    if matrix.pattern.has_short_rows(x) and total.is_contiguous():
        return _by_rows(matrix, x, total, out)
    if out is not total:
        out.copy_(total)
    return torch.addmm(out, matrix.tensor, x, out=out)


def _by_rows(
    matrix: CsrMatrix, x: Tensor, start: Tensor | None = None, out: Tensor | None = None
) -> Tensor:
    p = matrix.pattern
    return row_product(
        p.offsets,
        p.columns,
        matrix.entries,
        x.contiguous(),
        longest=p.longest,
        start=start,
        out=out,
    )


@functools.cache
def _hear_beta_warning() -> None:
    """Let torch say once per process, unheard, that its CSR support is beta and unchecked."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse (CSR tensor support|invariant checks)")
        offsets = torch.zeros(2, dtype=torch.int32)
        torch.sparse_csr_tensor(offsets, offsets[:0], offsets[:0], (1, 1), check_invariants=False)
