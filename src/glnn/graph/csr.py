"""Compressed rows whose structure is built once and whose values may change each step."""

import functools
import warnings
from dataclasses import dataclass
from functools import cached_property

import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional


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
