"""Pairs of nodes i <= j, each stored once: the unknowns of the graph problem."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn.graph.csr import CsrPattern
from glnn.graph.row_base import to_device
from glnn.graph.sparse import SparseAdjacency, symmetric_pattern
from glnn.graph.spread import owners, pair_owners, sent, sweep_owners
from glnn.peers import Partition

Ends = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Distinct pairs ``i <= j`` of nodes, sorted by row, then column; those of one process.

    Examples
    --------
    >>> from glnn.peers import ALONE, Partition
    >>> ends = (torch.tensor([2, 0]), torch.tensor([0, 0]))
    >>> pairs = Pairs.union(Partition(3, ALONE), [ends])
    >>> pairs.i, pairs.j
    (tensor([0, 0]), tensor([0, 2]))
    """

    partition: Partition
    i: Tensor
    j: Tensor

    @classmethod
    def from_keys(cls, partition: Partition, keys: Tensor) -> "Pairs":
        """Return the pairs with these sorted, distinct keys ``i * n_nodes + j``."""
        i = torch.div(keys, partition.n_nodes, rounding_mode="floor")
        return cls(partition, i, keys - i * partition.n_nodes)

    @classmethod
    def union(cls, partition: Partition, parts: Iterable[Ends]) -> "Pairs":
        """Return every pair named by any of ``parts``, in whichever direction."""
        keys = [pair_keys(partition.n_nodes, *ends) for ends in parts]
        return cls.from_keys(partition, sorted_distinct(torch.cat(keys)))

    def __len__(self) -> int:
        return len(self.i)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.partition.n_nodes

    @cached_property
    def keys(self) -> Tensor:
        """The sorted keys ``i * n_nodes + j``."""
        return self.i * self.n_nodes + self.j

    @cached_property
    def counts(self) -> Tensor:
        """How often a pair occurs in the full matrix: twice, once on the diagonal."""
        return torch.where(self.i == self.j, 1.0, 2.0).double()

    @cached_property
    def loops(self) -> Tensor:
        """Places of the pairs on the diagonal."""
        return torch.nonzero(self.i == self.j).view(-1)

    @cached_property
    def pattern(self) -> CsrPattern:
        """Compressed rows of the full matrix, and which pair each of its entries belongs to."""
        return symmetric_pattern(self.n_nodes, self.i, self.j)

    @cached_property
    def meetings(self) -> list[tuple[Tensor | None, Tensor, Tensor]]:
        """For each process: which pairs have an end there, that end, and the end that is here.

        Ends are numbers of rows of their blocks; ``None`` stands for all pairs in order. An end of
        every pair is among the rows of its process (:class:`glnn.peers.Partition`).
        """
        part = self.partition
        if part.peers.size == 1:
            return [(None, self.j, self.i)]
        here = (self.i >= part.start) & (self.i < part.stop)
        near, far = torch.where(here, self.i, self.j), torch.where(here, self.j, self.i)
        source = owners(part, far)
        found: list[tuple[Tensor | None, Tensor, Tensor]] = []
        for rank in range(part.peers.size):
            mine = torch.nonzero(source == rank).view(-1)
            found.append((mine, far[mine] - int(part.bounds[rank]), near[mine] - part.start))
        return found

    def select(self, mask: Tensor) -> "Pairs":
        """Return the pairs where ``mask`` holds."""
        chosen = torch.nonzero(mask).view(-1)
        return Pairs(self.partition, self.i[chosen], self.j[chosen])

    def where_swept(self) -> "Pairs":
        """Return everyone's pairs that a sweep over tiles shows to this process."""
        part = self.partition
        return Pairs(part, *sent(part, sweep_owners(part, self.i, self.j), self.i, self.j))

    def places(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return where each key lies among the pairs, and whether it does."""
        if not len(self):
            return torch.zeros_like(keys), torch.zeros_like(keys, dtype=torch.bool)
        place = torch.searchsorted(self.keys, keys).clamp_(max=len(self) - 1)
        return place, self.keys.index_select(0, place) == keys

    def contains(self, keys: Tensor) -> Tensor:
        """Say for each key whether it is one of these pairs."""
        return self.places(keys)[1]

    def adjacency(self, values: Tensor) -> SparseAdjacency:
        """Return the symmetric graph with these values on the pairs."""
        return SparseAdjacency(self.n_nodes, self.i, self.j, values)

    def to_csr(self, values: Tensor) -> sp.csr_matrix:
        """Return this process's rows of the symmetric matrix; zeros are not stored."""
        kept = torch.nonzero(values).view(-1)
        i, j, v = self.i[kept], self.j[kept], values[kept]
        off = torch.nonzero(i != j).view(-1)
        rows, columns = torch.cat([i, j[off]]), torch.cat([j, i[off]])
        part = self.partition
        rows, columns, v = sent(part, owners(part, rows), rows, columns, torch.cat([v, v[off]]))
        order = torch.argsort(rows * self.n_nodes + columns)
        counts = torch.bincount(rows - part.start, minlength=part.n_rows)
        starts = np.zeros(part.n_rows + 1, dtype=np.int64)
        np.cumsum(counts.cpu().numpy(), out=starts[1:])
        dtype = np.int32 if starts[-1] < 2**31 else np.int64
        indices = columns[order].cpu().numpy().astype(dtype)
        arrays = (v[order].cpu().numpy(), indices, starts.astype(dtype))
        matrix = sp.csr_matrix(arrays, shape=(part.n_rows, self.n_nodes))
        matrix.has_canonical_format = True
        return matrix


@dataclass(frozen=True, eq=False)
class PairValues:
    """A symmetric sparse matrix: one number for each pair of a list, of which this is a part."""

    pairs: Pairs
    values: Tensor

    @classmethod
    def of_rows(
        cls, partition: Partition, block: sp.csr_matrix, device: str | torch.device = "cpu"
    ) -> "PairValues":
        """Take this process's pairs from its rows of a symmetric matrix."""
        if not block.has_canonical_format:
            block = block.copy()
            block.sum_duplicates()
        lengths = to_device(np.diff(block.indptr).astype(np.int64), device)
        own = torch.arange(partition.start, partition.stop, device=lengths.device)
        rows, columns = own.repeat_interleave(lengths), to_device(block.indices, device).long()
        is_here = (columns >= partition.start) & (columns < partition.stop)
        mine = (rows <= columns) | ~is_here  # if both of a pair's entries are here, one counts
        if partition.peers.size > 1:
            mine &= pair_owners(partition, rows, columns) == partition.peers.rank
        rows, columns = rows[mine], columns[mine]
        values = to_device(block.data.astype(np.float64, copy=False), device)[mine]
        if partition.peers.size > 1:  # those of one process are in order
            keys, order = pair_keys(partition.n_nodes, rows, columns).sort()
            return cls(Pairs.from_keys(partition, keys), values[order])
        return cls(Pairs(partition, rows, columns), values)

    def __add__(self, other: "PairValues") -> "PairValues":
        keys = torch.cat([self.pairs.keys, other.pairs.keys])
        both = Pairs.from_keys(self.pairs.partition, sorted_distinct(keys))
        return PairValues(both, self.on(both) + other.on(both))

    def times(self, factor: float | int) -> "PairValues":
        """Return the matrix times a number."""
        return PairValues(self.pairs, factor * self.values)

    def on(self, pairs: Pairs) -> Tensor:
        """Return the entries on other pairs, zero where there is none."""
        place, known = pairs.places(self.pairs.keys)
        result = torch.zeros(len(pairs), dtype=self.values.dtype, device=self.values.device)
        result[place[known]] = self.values[known]
        return result


def sorted_distinct(keys: Tensor) -> Tensor:
    """Return each key once, in order.

    Examples
    --------
    >>> sorted_distinct(torch.tensor([3, 1, 1, 2]))
    tensor([1, 2, 3])
    """
    distinct: Tensor = torch.unique_consecutive(keys.sort().values)
    return distinct


def pair_keys(n_nodes: int, first: Tensor, second: Tensor) -> Tensor:
    """Return ``min * n_nodes + max`` for each pair."""
    return torch.minimum(first, second) * n_nodes + torch.maximum(first, second)
