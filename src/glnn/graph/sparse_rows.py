"""Rows stored by their entries."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from glnn.graph.csr import CsrMatrix, CsrPattern, product
from glnn.graph.row_base import DENSE_FROM, RowMatrix, block_bytes_of, entries_at_once

_LOOKED_UP = 2**23  # bytes of dense rows that entries are looked up in: new memory is slow


@dataclass(frozen=True, eq=False)
class SparseRows(RowMatrix):
    """Compressed rows: ``columns[starts[i]:starts[i + 1]]`` have entries in row ``i``.

    Examples
    --------
    >>> from glnn.graph.row_matrix import row_matrix
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
