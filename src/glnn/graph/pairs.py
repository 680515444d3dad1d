"""Rows and pairs of nodes that are sharded over processes, and matrices defined on them.

:class:`ShardedRows` are signal rows. :class:`Pairs` are the unknowns of the graph problem, each
pair ``i <= j`` stored once. :class:`ImplicitMatrix` is a symmetric N x N matrix that is never
formed: it is evaluated on pairs or tile by tile.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn.distributed import SINGLE_PROCESS, Partition
from glnn.graph.adjacency import SparseAdjacency, symmetric_pattern
from glnn.graph.rows import (
    BLOCK_BYTES,
    DEVICE_BYTES,
    CsrPattern,
    DenseRows,
    RowMatrix,
    as_row_matrix,
    block_bytes_on,
    to_device,
)

# Sharded rows


@dataclass(frozen=True, eq=False)
class ShardedRows:
    """A matrix whose rows are split over the processes.

    Examples
    --------
    >>> [rank for rank, block in as_sharded_rows(torch.eye(3)).blocks()]
    [0]
    """

    local: RowMatrix  # the rows of this process
    partition: Partition

    def with_local(self, local: RowMatrix) -> "ShardedRows":
        """Return a matrix with other local rows and the same partition."""
        return ShardedRows(local, self.partition)

    def blocks(self) -> Iterator[tuple[int, RowMatrix]]:
        """Yield (rank, rows of that process), starting with this process.

        Blocks of other ranks arrive by ring exchange, so all processes must iterate over all
        blocks together.
        """
        part, block = self.partition, self.local
        size, rank = part.peers.size, part.peers.rank
        yield rank, block
        if size == 1:
            return
        lengths = [part.all_gather_count(len(tensor)) for tensor in block.tensors()]
        for shift in range(1, size):
            source = (rank - shift) % size
            received = tuple(
                part.peers.ring_shift(sent, sent.new_empty(int(counts[source]), *sent.shape[1:]))
                for sent, counts in zip(block.tensors(), lengths)
            )
            block = block.with_tensors(received)
            yield source, block

    def densify(self, share: float) -> "ShardedRows":
        """Return dense rows if at least this share of the entries is stored.

        All processes decide alike. On a device other than the CPU, rows that fit in its memory
        are always made dense.
        """
        local, n_nodes = self.local, self.partition.n_nodes
        n_stored = self.partition.peers.all_reduce(len(local) * local.mean_row_nnz)
        n_bytes = n_nodes * local.n_columns * local.dtype.itemsize
        fits = local.device.type != "cpu" and n_bytes <= DEVICE_BYTES
        if fits or n_stored >= share * n_nodes * local.n_columns:
            return self.with_local(DenseRows(local.to_dense()))
        return self

    def all_reduce(self, part: Tensor) -> Tensor:
        """Return the sum over all processes."""
        return self.partition.peers.all_reduce(part)


def as_sharded_rows(matrix: object, partition: Partition | None = None) -> ShardedRows:
    """Wrap this process's rows (array, tensor, CSR or rows); without a partition, all rows."""
    if isinstance(matrix, ShardedRows):
        return matrix
    local = matrix if isinstance(matrix, RowMatrix) else as_row_matrix(matrix)
    return ShardedRows(local, partition or Partition(len(local), SINGLE_PROCESS))


def row_owners(partition: Partition, nodes: Tensor) -> Tensor:
    """Return the rank that owns each node's row."""
    bounds = torch.as_tensor(partition.bounds[1:], device=nodes.device)
    return torch.searchsorted(bounds, nodes, right=True)


def pair_owners(partition: Partition, i: Tensor, j: Tensor) -> Tensor:
    """Return the rank that owns each pair, given in either order."""
    low, high = torch.minimum(i, j), torch.maximum(i, j)
    return row_owners(partition, torch.where((low + high) % 2 == 0, low, high))


def sweep_owners(partition: Partition, i: Tensor, j: Tensor) -> Tensor:
    """Return the rank whose sweep over tiles (:meth:`ImplicitMatrix.tiles`) has each pair."""
    size = partition.peers.size
    first, second = row_owners(partition, i), row_owners(partition, j)
    return torch.where(_owns_block_pair(first, second, size), first, second)


def owns_block_pair(rank: int, source: int, size: int) -> bool:
    """Return whether ``rank``, and not ``source``, computes the tiles of their two row blocks."""
    return bool(_owns_block_pair(torch.tensor(rank), torch.tensor(source), size))


def _owns_block_pair(rank: Tensor, source: Tensor, size: int) -> Tensor:
    shift = (rank - source) % size
    return (2 * shift < size) | ((2 * shift == size) & (rank < source))


def exchange(partition: Partition, owner: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
    """Send each entry of some lists to its owner; return those received, in the order of ranks."""
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


def exchange_rows(partition: Partition, owner: Tensor, rows: RowMatrix) -> RowMatrix:
    """Send each row to its owner; return those received, in the order of ranks."""
    peers = partition.peers
    if peers.size == 1:
        return rows
    lists = [
        rows.take(torch.nonzero(owner == rank).view(-1)).tensors() for rank in range(peers.size)
    ]
    columns = [peers.all_to_all(list(column)) for column in zip(*lists)]
    blocks = [rows.with_tensors(tensors) for tensors in zip(*columns)]
    return blocks[0].concatenate(blocks[1:])


# Pairs of nodes

Ends = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Distinct pairs ``i <= j`` of nodes that one process owns, sorted by row, then column.

    Examples
    --------
    >>> from glnn.distributed import SINGLE_PROCESS, Partition
    >>> ends = (torch.tensor([2, 0]), torch.tensor([0, 0]))
    >>> pairs = Pairs.union(Partition(3, SINGLE_PROCESS), [ends])
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
        """Return every pair in any of ``parts``, given in either direction."""
        keys = [pair_keys(partition.n_nodes, *ends) for ends in parts]
        return cls.from_keys(partition, sort_unique(torch.cat(keys)))

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
        """Number of entries of the full matrix for each pair: 2, or 1 on the diagonal."""
        return torch.where(self.i == self.j, 1.0, 2.0).double()

    @cached_property
    def loops(self) -> Tensor:
        """Positions of the pairs on the diagonal."""
        return torch.nonzero(self.i == self.j).view(-1)

    @cached_property
    def pattern(self) -> CsrPattern:
        """Pattern of the full matrix; the source of an entry is its pair."""
        return symmetric_pattern(self.n_nodes, self.i, self.j)

    @cached_property
    def remote_ends(self) -> list[tuple[Tensor | None, Tensor, Tensor]]:
        """For each rank: which pairs have an end there, that end, and the end in this process.

        Ends are row indices in their blocks. ``None`` stands for all pairs in order. Each pair has
        an end among the rows of its process (:class:`glnn.distributed.Partition`).
        """
        part = self.partition
        if part.peers.size == 1:
            return [(None, self.j, self.i)]
        here = (self.i >= part.start) & (self.i < part.stop)
        near, far = torch.where(here, self.i, self.j), torch.where(here, self.j, self.i)
        source = row_owners(part, far)
        found: list[tuple[Tensor | None, Tensor, Tensor]] = []
        for rank in range(part.peers.size):
            mine = torch.nonzero(source == rank).view(-1)
            found.append((mine, far[mine] - int(part.bounds[rank]), near[mine] - part.start))
        return found

    def select(self, mask: Tensor) -> "Pairs":
        """Return the pairs where ``mask`` holds."""
        chosen = torch.nonzero(mask).view(-1)
        return Pairs(self.partition, self.i[chosen], self.j[chosen])

    def swept_pairs(self) -> "Pairs":
        """Return those of all processes' pairs that are in the tiles of this process."""
        part = self.partition
        return Pairs(part, *exchange(part, sweep_owners(part, self.i, self.j), self.i, self.j))

    def locate(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return the position of each key among the pairs, and whether it is one of them."""
        if not len(self):
            return torch.zeros_like(keys), torch.zeros_like(keys, dtype=torch.bool)
        place = torch.searchsorted(self.keys, keys).clamp_(max=len(self) - 1)
        return place, self.keys.index_select(0, place) == keys

    def contains(self, keys: Tensor) -> Tensor:
        """Return for each key whether it is one of these pairs."""
        return self.locate(keys)[1]

    def to_adjacency(self, values: Tensor) -> SparseAdjacency:
        """Return the symmetric graph with these values on the pairs."""
        return SparseAdjacency(self.n_nodes, self.i, self.j, values)

    def to_scipy(self, values: Tensor) -> sp.csr_matrix:
        """Return this process's rows of the symmetric matrix; zeros are not stored."""
        kept = torch.nonzero(values).view(-1)
        i, j, v = self.i[kept], self.j[kept], values[kept]
        off = torch.nonzero(i != j).view(-1)
        rows, columns = torch.cat([i, j[off]]), torch.cat([j, i[off]])
        part = self.partition
        rows, columns, v = exchange(
            part, row_owners(part, rows), rows, columns, torch.cat([v, v[off]])
        )
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
    """A symmetric sparse matrix: one value for each pair of this process."""

    pairs: Pairs
    values: Tensor

    @classmethod
    def from_rows(
        cls, partition: Partition, block: sp.csr_matrix, device: str | torch.device = "cpu"
    ) -> "PairValues":
        """Build from this process's rows of a symmetric matrix."""
        if not block.has_canonical_format:
            block = block.copy()
            block.sum_duplicates()
        lengths = to_device(np.diff(block.indptr).astype(np.int64), device)
        own = torch.arange(partition.start, partition.stop, device=lengths.device)
        rows, columns = own.repeat_interleave(lengths), to_device(block.indices, device).long()
        is_here = (columns >= partition.start) & (columns < partition.stop)
        mine = (rows <= columns) | ~is_here  # if both entries of a pair are here, take one
        if partition.peers.size > 1:
            mine &= pair_owners(partition, rows, columns) == partition.peers.rank
        rows, columns = rows[mine], columns[mine]
        values = to_device(block.data.astype(np.float64, copy=False), device)[mine]
        if partition.peers.size > 1:  # pairs of a single process are already sorted
            keys, order = pair_keys(partition.n_nodes, rows, columns).sort()
            return cls(Pairs.from_keys(partition, keys), values[order])
        return cls(Pairs(partition, rows, columns), values)

    def __add__(self, other: "PairValues") -> "PairValues":
        keys = torch.cat([self.pairs.keys, other.pairs.keys])
        both = Pairs.from_keys(self.pairs.partition, sort_unique(keys))
        return PairValues(both, self.on_pairs(both) + other.on_pairs(both))

    def scale(self, factor: float | int) -> "PairValues":
        """Return the matrix multiplied by a number."""
        return PairValues(self.pairs, factor * self.values)

    def on_pairs(self, pairs: Pairs) -> Tensor:
        """Return the entries on other pairs, zero where none is stored."""
        place, found = pairs.locate(self.pairs.keys)
        result = torch.zeros(len(pairs), dtype=self.values.dtype, device=self.values.device)
        result[place[found]] = self.values[found]
        return result


def sort_unique(keys: Tensor) -> Tensor:
    """Return the distinct keys, sorted.

    Examples
    --------
    >>> sort_unique(torch.tensor([3, 1, 1, 2]))
    tensor([1, 2, 3])
    """
    distinct: Tensor = torch.unique_consecutive(keys.sort().values)
    return distinct


def pair_keys(n_nodes: int, first: Tensor, second: Tensor) -> Tensor:
    """Return ``min * n_nodes + max`` for each pair."""
    return torch.minimum(first, second) * n_nodes + torch.maximum(first, second)


# Implicit matrices


@dataclass(frozen=True, eq=False)
class LowRankPart:
    r"""The matrix :math:`F_{ij} = c\,\ell_i \cdot r_j` of low rank; it must be symmetric."""

    left: ShardedRows
    right: ShardedRows
    scale: float | int = 1.0

    def on_pairs(self, pairs: Pairs) -> Tensor:
        """Return the entries on this process's pairs."""
        total = torch.zeros(len(pairs), dtype=torch.float64, device=pairs.i.device)
        for rank, block in self.right.blocks():
            mine, far, near = pairs.remote_ends[rank]
            found = self.left.local.pair_dots(block, near, far)
            if mine is None:
                total += found
            else:
                total[mine] = found
        return total if self.scale == 1 else total * self.scale


@dataclass(frozen=True, eq=False)
class ImplicitMatrix:
    r"""The matrix :math:`M_{ij} = c + u_i + u_j + t\,[i=j] + P_{ij} + \sum_f F_{ij}`.

    It is never formed: only its entries on pairs, or tiles of it, are computed.
    """

    constant: float | int = 0.0  # the number :math:`c`
    loop: float | int = 0.0  # the number :math:`t` on the diagonal
    nodes: Tensor | None = None  # the vector :math:`u` over all nodes; None: zero
    sparse: PairValues | None = None  # the symmetric matrix :math:`P`; None: zero
    factors: tuple[LowRankPart, ...] = ()  # the matrices :math:`F`

    def __add__(self, other: "ImplicitMatrix") -> "ImplicitMatrix":
        return ImplicitMatrix(
            self.constant + other.constant,
            self.loop + other.loop,
            _add_optional(self.nodes, other.nodes),
            _add_optional(self.sparse, other.sparse),
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
            values += self.sparse.on_pairs(pairs)
        for factor in self.factors:
            values += factor.on_pairs(pairs)
        return values

    def tiles(
        self, partition: Partition, device: str | torch.device, *, block_bytes: int = BLOCK_BYTES
    ) -> Iterator["Tile"]:
        """Yield tiles that together cover every pair once over all processes.

        Tiles on the diagonal are full squares. The matrix :math:`P` is left out, since its pairs
        are listed.
        """
        peers, device = partition.peers, torch.device(device)
        rings = [factor.right.blocks() for factor in self.factors]
        for shift in range(peers.size):
            source = (peers.rank - shift) % peers.size
            blocks = [next(ring)[1] for ring in rings]
            if owns_block_pair(peers.rank, source, peers.size):
                ends = slice(int(partition.bounds[source]), int(partition.bounds[source + 1]))
                yield from self._block_tiles(partition, ends, blocks, device, block_bytes)

    def _block_tiles(
        self,
        partition: Partition,
        there: slice,
        blocks: list[RowMatrix],
        device: torch.device,
        block_bytes: int,
    ) -> Iterator["Tile"]:
        """Yield the tiles of this process's rows and the columns ``there`` of one process."""
        here = partition.rows
        widest = max((block.n_columns for block in blocks), default=1)
        size = tile_size(widest, block_bytes_on(device, block_bytes))
        for first_column in range(there.start, there.stop, size):
            columns = slice(first_column, min(first_column + size, there.stop))
            local = slice(columns.start - there.start, columns.stop - there.start)
            rights = [block.block(local).to_dense().T for block in blocks]
            last = min(here.stop, columns.stop) if there == here else here.stop
            for first_row in range(here.start, last, size):
                rows = slice(first_row, min(first_row + size, here.stop))
                values = self._base_values(rows, columns, device)
                local = slice(rows.start - here.start, rows.stop - here.start)
                for factor, right in zip(self.factors, rights):
                    part = factor.left.local.block(local).matmul(right)
                    values.add_(part, alpha=factor.scale)
                tile = Tile(first_row, first_column, values)
                if tile.is_on_diagonal and self.loop:
                    values.diagonal().add_(self.loop)
                yield tile

    def _base_values(self, rows: slice, columns: slice, device: torch.device) -> Tensor:
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        values = torch.full(shape, float(self.constant), dtype=torch.float64, device=device)
        if self.nodes is not None:
            values += self.nodes[rows, None]
            values += self.nodes[columns]
        return values


@dataclass(frozen=True, eq=False)
class Tile:
    """A dense block of a matrix."""

    first_row: int
    first_column: int
    values: Tensor  # the caller may change them

    @property
    def is_on_diagonal(self) -> bool:
        """Whether the tile is a square on the diagonal, with both entries of its pairs."""
        return self.first_row == self.first_column

    def fill(self, pairs: Pairs, value: float) -> None:
        """Set the entries of these pairs to a value, where the tile has them."""
        n_rows, n_columns = self.values.shape
        for rows, columns in ((pairs.i, pairs.j), (pairs.j, pairs.i)):
            row, column = rows - self.first_row, columns - self.first_column
            inside = (row >= 0) & (row < n_rows) & (column >= 0) & (column < n_columns)
            place = torch.nonzero(inside).view(-1)
            self.values.view(-1)[row[place] * n_columns + column[place]] = value


def tile_size(widest: int, block_bytes: int) -> int:
    """Return the rows of a square tile such that it, copies and dense factors fit in a block."""
    entries = max(1, block_bytes // 8)
    return max(1, min(int((entries / 4) ** 0.5), entries // (2 * max(1, widest))))


def _add_optional(first: Any, second: Any) -> Any:
    """Return the sum of two values, either of which may be ``None``."""
    if first is None or second is None:
        return first if second is None else second
    return first + second
