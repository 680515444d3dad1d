"""Pairs of nodes i <= j, each stored once: the unknowns of the graph problem."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn.distributed import ALONE, Partition
from glnn.graph.adjacency import SparseAdjacency, symmetric_pattern
from glnn.graph.rows import (
    BLOCK_BYTES,
    DEVICE_BYTES,
    CsrPattern,
    DenseRows,
    RowMatrix,
    block_bytes_of,
    row_matrix,
    to_device,
)

# --- spread: Rows spread over processes: each has a block, and the blocks of the others come by


@dataclass(frozen=True, eq=False)
class SpreadRows:
    """The rows of a matrix that this process has, and who has which others.

    Examples
    --------
    >>> [rank for rank, block in spread(torch.eye(3)).blocks()]
    [0]
    """

    own: RowMatrix
    partition: Partition

    def with_own(self, own: RowMatrix) -> "SpreadRows":
        """Return other rows, spread alike."""
        return SpreadRows(own, self.partition)

    def blocks(self) -> Iterator[tuple[int, RowMatrix]]:
        """Yield everyone's rows with the number of the process, own ones first.

        All processes must go through all blocks, in step: each passes on what it got.
        """
        part, block = self.partition, self.own
        size, rank = part.peers.size, part.peers.rank
        yield rank, block
        if size == 1:
            return
        lengths = [part.counts(len(tensor)) for tensor in block.tensors()]
        for shift in range(1, size):
            source = (rank - shift) % size
            received = tuple(
                part.peers.ring_shift(sent, sent.new_empty(int(counts[source]), *sent.shape[1:]))
                for sent, counts in zip(block.tensors(), lengths)
            )
            block = block.like(received)
            yield source, block

    def dense_from(self, share: float) -> "SpreadRows":
        """Return the same rows, dense where so large a share of their entries is stored.

        All processes decide alike. A device that is not the host is also given dense rows if
        they fit there.
        """
        own, n_nodes = self.own, self.partition.n_nodes
        n_stored = self.partition.peers.all_reduce(len(own) * own.row_length)
        n_bytes = n_nodes * own.n_columns * own.dtype.itemsize
        fits = own.device.type != "cpu" and n_bytes <= DEVICE_BYTES
        if fits or n_stored >= share * n_nodes * own.n_columns:
            return self.with_own(DenseRows(own.dense()))
        return self

    def summed(self, own: Tensor) -> Tensor:
        """Return the sum of everyone's parts."""
        return self.partition.peers.all_reduce(own)


def spread(matrix: object, partition: Partition | None = None) -> SpreadRows:
    """Return a matrix (array, tensor, CSR or rows) of which a block is here; alone, all of it."""
    if isinstance(matrix, SpreadRows):
        return matrix
    own = matrix if isinstance(matrix, RowMatrix) else row_matrix(matrix)
    return SpreadRows(own, partition or Partition(len(own), ALONE))


def owners(partition: Partition, nodes: Tensor) -> Tensor:
    """Return the process that has each node's row."""
    bounds = torch.as_tensor(partition.bounds[1:], device=nodes.device)
    return torch.searchsorted(bounds, nodes, right=True)


def pair_owners(partition: Partition, i: Tensor, j: Tensor) -> Tensor:
    """Return the process that has each pair, given in either order."""
    low, high = torch.minimum(i, j), torch.maximum(i, j)
    return owners(partition, torch.where((low + high) % 2 == 0, low, high))


def sweep_owners(partition: Partition, i: Tensor, j: Tensor) -> Tensor:
    """Return the process that meets each pair when all blocks have come by once."""
    size = partition.peers.size
    first, second = owners(partition, i), owners(partition, j)
    return torch.where(_meets(first, second, size), first, second)


def meets(rank: int, source: int, size: int) -> bool:
    """Say whether a process compares its rows with those of another, or the other does."""
    return bool(_meets(torch.tensor(rank), torch.tensor(source), size))


def _meets(rank: Tensor, source: Tensor, size: int) -> Tensor:
    shift = (rank - source) % size
    return (2 * shift < size) | ((2 * shift == size) & (rank < source))


def sent(partition: Partition, owner: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
    """Give each entry of some lists to its owner; return what came, in the order of ranks."""
    peers = partition.peers
    if peers.size == 1:
        return parts
    order = torch.argsort(owner, stable=True)
    counts = torch.bincount(owner, minlength=peers.size).tolist()
    arrived = []
    for part in parts:
        lists = list(torch.split(part.index_select(0, order), counts))
        arrived.append(torch.cat(peers.all_to_all(lists)))
    return tuple(arrived)


def sent_rows(partition: Partition, owner: Tensor, rows: RowMatrix) -> RowMatrix:
    """Give each row to its owner; return the rows that came, in the order of ranks."""
    peers = partition.peers
    if peers.size == 1:
        return rows
    lists = [
        rows.take(torch.nonzero(owner == rank).view(-1)).tensors() for rank in range(peers.size)
    ]
    columns = [peers.all_to_all(list(column)) for column in zip(*lists)]
    blocks = [rows.like(tensors) for tensors in zip(*columns)]
    return blocks[0].joined(blocks[1:])


# --- pairs: Pairs of nodes i <= j, each stored once: the unknowns of the graph problem

Ends = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Distinct pairs ``i <= j`` of nodes, sorted by row, then column; those of one process.

    Examples
    --------
    >>> from glnn.distributed import ALONE, Partition
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
        every pair is among the rows of its process (:class:`glnn.distributed.Partition`).
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


# --- implicit: Symmetric N x N matrices that are never formed: read on pairs or tile by tile


@dataclass(frozen=True, eq=False)
class Factor:
    r"""The low-rank part :math:`F_{ij} = c\,\ell_i \cdot r_j`; its matrix must be symmetric."""

    left: SpreadRows
    right: SpreadRows
    scale: float | int = 1.0

    def on_pairs(self, pairs: Pairs) -> Tensor:
        """Return the entries on this process's pairs."""
        total = torch.zeros(len(pairs), dtype=torch.float64, device=pairs.i.device)
        for rank, block in self.right.blocks():
            mine, far, near = pairs.meetings[rank]
            found = self.left.own.dots(block, near, far)
            if mine is None:
                total += found
            else:
                total[mine] = found
        return total if self.scale == 1 else total * self.scale


@dataclass(frozen=True, eq=False)
class Implicit:
    r"""The matrix :math:`M_{ij} = c + u_i + u_j + t\,[i=j] + P_{ij} + \sum_f F_{ij}`.

    Parameters
    ----------
    constant, loop
        The scalars :math:`c` and :math:`t`.
    nodes
        The vector :math:`u` over all nodes; ``None``: zero.
    sparse
        The symmetric matrix :math:`P`, stored on its pairs.
    factors
        The low-rank parts.
    """

    constant: float | int = 0.0
    loop: float | int = 0.0
    nodes: Tensor | None = None
    sparse: PairValues | None = None
    factors: tuple[Factor, ...] = ()

    def __add__(self, other: "Implicit") -> "Implicit":
        return Implicit(
            self.constant + other.constant,
            self.loop + other.loop,
            _sum(self.nodes, other.nodes),
            _sum(self.sparse, other.sparse),
            self.factors + other.factors,
        )

    def on_pairs(self, pairs: Pairs) -> Tensor:
        """Return the entries on this process's pairs."""
        constant, device = float(self.constant), pairs.i.device
        values = torch.full((len(pairs),), constant, dtype=torch.float64, device=device)
        if self.nodes is not None:
            values += self.nodes.index_select(0, pairs.i)
            values += self.nodes.index_select(0, pairs.j)
        if self.loop:
            values[pairs.loops] += self.loop
        if self.sparse is not None:
            values += self.sparse.on(pairs)
        for factor in self.factors:
            values += factor.on_pairs(pairs)
        return values

    def tiles(
        self, partition: Partition, device: str | torch.device, *, block_bytes: int = BLOCK_BYTES
    ) -> Iterator["Tile"]:
        """Yield tiles that show every pair of all processes once, diagonal tiles in full.

        The part :math:`P` is left out: its pairs are a list, and read on it.
        """
        peers, device = partition.peers, torch.device(device)
        rings = [factor.right.blocks() for factor in self.factors]
        for shift in range(peers.size):
            source = (peers.rank - shift) % peers.size
            blocks = [next(ring)[1] for ring in rings]
            if meets(peers.rank, source, peers.size):
                ends = slice(int(partition.bounds[source]), int(partition.bounds[source + 1]))
                yield from self._tiles_with(partition, ends, blocks, device, block_bytes)

    def _tiles_with(
        self,
        partition: Partition,
        there: slice,
        blocks: list[RowMatrix],
        device: torch.device,
        block_bytes: int,
    ) -> Iterator["Tile"]:
        """Yield the tiles of this process's rows with those of another, or with themselves."""
        here = partition.rows
        widest = max((block.n_columns for block in blocks), default=1)
        size = tile_size(widest, block_bytes_of(device, block_bytes))
        for first_column in range(there.start, there.stop, size):
            columns = slice(first_column, min(first_column + size, there.stop))
            local = slice(columns.start - there.start, columns.stop - there.start)
            rights = [block.block(local).dense().T for block in blocks]
            last = min(here.stop, columns.stop) if there == here else here.stop
            for first_row in range(here.start, last, size):
                rows = slice(first_row, min(first_row + size, here.stop))
                values = self._plain(rows, columns, device)
                local = slice(rows.start - here.start, rows.stop - here.start)
                for factor, right in zip(self.factors, rights):
                    part = factor.left.own.block(local).times(right)
                    values.add_(part, alpha=factor.scale)
                tile = Tile(first_row, first_column, values)
                if tile.on_diagonal and self.loop:
                    values.diagonal().add_(self.loop)
                yield tile

    def _plain(self, rows: slice, columns: slice, device: torch.device) -> Tensor:
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        values = torch.full(shape, float(self.constant), dtype=torch.float64, device=device)
        if self.nodes is not None:
            values += self.nodes[rows, None]
            values += self.nodes[columns]
        return values


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

    def fill(self, pairs: Pairs, value: float) -> None:
        """Put a value wherever the tile shows one of these pairs."""
        n_rows, n_columns = self.values.shape
        for rows, columns in ((pairs.i, pairs.j), (pairs.j, pairs.i)):
            row, column = rows - self.first_row, columns - self.first_column
            inside = (row >= 0) & (row < n_rows) & (column >= 0) & (column < n_columns)
            place = torch.nonzero(inside).view(-1)
            self.values.view(-1)[row[place] * n_columns + column[place]] = value


def tile_size(widest: int, block_bytes: int) -> int:
    """Rows of a square tile such that tile, scratch copies and dense factors stay in the block."""
    entries = max(1, block_bytes // 8)
    return max(1, min(int((entries / 4) ** 0.5), entries // (2 * max(1, widest))))


def _sum(first: Any, second: Any) -> Any:
    """Return the sum of two parts of which either may be missing."""
    if first is None or second is None:
        return first if second is None else second
    return first + second
