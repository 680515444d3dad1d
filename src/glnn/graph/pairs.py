"""Rows and pairs of nodes that are sharded over processes, and matrices defined on them.

:class:`ShardedRows` are signal rows. :class:`Pairs` are the unknowns of the graph problem, each
pair ``i <= j`` stored once, and :class:`SparseAdjacency` is a graph with a value for each of them.
:class:`ImplicitMatrix` is a symmetric N x N matrix that is never formed: it is evaluated on pairs
or tile by tile.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glnn._utils import check_weights
from glnn.distributed import Partition
from glnn.exceptions import InputError
from glnn.graph.adjacency import DenseAdjacency, GraphOperator
from glnn.graph.convert import as_adjacency
from glnn.graph.operators import GraphRows, drop_loops
from glnn.graph.rows import (
    DEVICE_BYTES,
    CsrMatrix,
    DenseRows,
    RowMatrix,
    as_row_matrix,
    block_bytes_on,
    to_device,
)

R = TypeVar("R")

# Sharded rows


@dataclass(frozen=True, eq=False)
class ShardedRows:
    """A matrix whose rows are split over the processes."""

    local: RowMatrix  # the rows of this process
    layout: Partition

    def with_local(self, local: RowMatrix) -> "ShardedRows":
        """Return a matrix with other local rows and the same layout."""
        return ShardedRows(local, self.layout)

    def blocks(self) -> Iterator[tuple[int, RowMatrix]]:
        """Yield (rank, rows) of each process, starting with this one.

        Blocks of other ranks arrive by ring exchange, so all processes must iterate over all
        blocks together.
        """
        peers, block = self.layout.peers, self.local
        yield peers.rank, block
        for shift in range(1, peers.size):
            arrived = []
            for tensor in block.tensors():
                sent = [tensor[:0]] * peers.size
                sent[(peers.rank + 1) % peers.size] = tensor
                arrived.append(peers.all_to_all(sent)[peers.rank - 1])
            block = block.with_tensors(tuple(arrived))
            yield (peers.rank - shift) % peers.size, block

    def densify(self, share: float) -> "ShardedRows":
        """Return dense rows if at least this share of the entries is stored.

        All processes decide alike. On a device other than the CPU, rows that fit in its memory
        are always made dense.
        """
        local, n_nodes = self.local, self.layout.n_nodes
        n_stored = self.layout.sum(float(local.n_stored))
        n_bytes = n_nodes * local.n_columns * local.dtype.itemsize
        fits = local.device.type != "cpu" and n_bytes <= DEVICE_BYTES
        if fits or n_stored >= share * n_nodes * local.n_columns:
            return self.with_local(DenseRows(local.to_dense()))
        return self


def as_sharded_rows(
    matrix: object, layout: Partition | None = None, device: str | torch.device = "cpu"
) -> ShardedRows:
    """Return this process's rows of a matrix (array, tensor, CSR or rows) on a device."""
    if isinstance(matrix, ShardedRows):
        return matrix
    local = matrix if isinstance(matrix, RowMatrix) else as_row_matrix(matrix, device=device)
    return ShardedRows(local, layout or Partition(len(local)))


def as_adjacency_rows(block: Any, layout: Partition) -> sp.csr_matrix:
    """Return :func:`as_adjacency` of a graph of which each process gives its rows."""
    if not layout.is_split:
        return as_adjacency(block, layout.n_nodes)
    shape = (layout.n_rows, layout.n_nodes)
    if not sp.issparse(block) or block.shape != shape:
        raise InputError(
            f"graph over several processes must be a sparse matrix of the {shape[0]} rows of this "
            f"one and {shape[1]} columns, got {type(block).__name__} of shape {np.shape(block)}."
        )
    matrix = check_weights("graph", sp.csr_matrix(block))
    both = sp.csr_matrix(matrix.maximum(layout.transpose(matrix)))
    return drop_loops(both, layout.start)


def _sweeps(rank: Tensor, source: Tensor, size: int) -> Tensor:
    """Return whether ``rank``, and not ``source``, computes the tiles of their two row blocks."""
    shift = (rank - source) % size
    return (2 * shift < size) | ((2 * shift == size) & (rank < source))


def exchange_rows(layout: Partition, owner: Tensor, rows: RowMatrix) -> RowMatrix:
    """Send each row to its owner; return those received, in the order of ranks."""
    peers = layout.peers
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
    >>> pairs = Pairs.union(Partition(3), [(torch.tensor([2, 0]), torch.tensor([0, 0]))])
    >>> pairs.i, pairs.j
    (tensor([0, 0]), tensor([0, 2]))
    """

    layout: Partition
    i: Tensor
    j: Tensor

    @classmethod
    def from_keys(cls, layout: Partition, *lists: Tensor) -> "Pairs":
        """Return the pairs with a key ``i * n_nodes + j`` in any of the lists, in any order."""
        keys: Tensor = torch.unique_consecutive(torch.cat(lists).sort().values)
        i = torch.div(keys, layout.n_nodes, rounding_mode="floor")
        return cls(layout, i, keys - i * layout.n_nodes)

    @classmethod
    def union(cls, layout: Partition, parts: Iterable[Ends]) -> "Pairs":
        """Return every pair in any of ``parts``, given in either direction."""
        return cls.from_keys(layout, *(pair_keys(layout.n_nodes, *ends) for ends in parts))

    def __len__(self) -> int:
        return len(self.i)

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.layout.n_nodes

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

    def full_entries(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return row, column and pair of every entry of the full matrix."""
        place, off = torch.arange(len(self), device=self.i.device), torch.nonzero(self.i != self.j)
        other = off[:, 0]
        rows, columns = torch.cat([self.i, self.j[other]]), torch.cat([self.j, self.i[other]])
        return rows, columns, torch.cat([place, other])

    @cached_property
    def pattern(self) -> CsrMatrix:
        """Pattern of the full matrix: its values are the numbers of the pairs."""
        return CsrMatrix.from_entries((self.n_nodes, self.n_nodes), *self.full_entries())

    @cached_property
    def _ends(self) -> Sequence[tuple[Tensor | slice, Tensor, Tensor]]:
        """By rank: its pairs, their end in this process, and their end among the rank's rows.

        Ends are row indices in their blocks. Each pair has an end among the rows of its process
        (:class:`glnn.distributed.Partition`).
        """
        part = self.layout
        if not part.is_split:
            return [(slice(None), self.i, self.j)]
        here = (self.i >= part.start) & (self.i < part.stop)
        near, far = torch.where(here, self.i, self.j), torch.where(here, self.j, self.i)
        source, found = part.owners(far), []
        for rank, first in enumerate(part.bounds[:-1].tolist()):
            mine = torch.nonzero(source == rank).view(-1)
            found.append((mine, near[mine] - part.start, far[mine] - first))
        return found

    def visit(
        self, rows: ShardedRows
    ) -> Iterator[tuple[Tensor | slice, Tensor, Tensor, RowMatrix]]:
        """Yield for each block of rows: its pairs, their near ends, their far ends, the block.

        Near ends are rows of this process, far ends are rows of the block. Pairs are given by
        their positions.
        """
        for source, block in rows.blocks():
            yield (*self._ends[source], block)

    def select(self, mask: Tensor) -> "Pairs":
        """Return the pairs where ``mask`` holds."""
        chosen = torch.nonzero(mask).view(-1)
        return Pairs(self.layout, self.i[chosen], self.j[chosen])

    def locate(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Return the position of each key among the pairs, and whether it is one of them."""
        if not len(self):
            return torch.zeros_like(keys), torch.zeros_like(keys, dtype=torch.bool)
        place = torch.searchsorted(self.keys, keys).clamp_(max=len(self) - 1)
        return place, self.keys.index_select(0, place) == keys

    def contains(self, keys: Tensor) -> Tensor:
        """Return for each key whether it is one of these pairs."""
        return self.locate(keys)[1]

    def to_scipy(self, values: Tensor) -> sp.csr_matrix:
        """Return this process's rows of the symmetric matrix; zeros are not stored."""
        part, is_stored, shape = self.layout, values != 0, (self.layout.n_rows, self.n_nodes)
        if part.is_split:
            rows, columns, source = self.select(is_stored).full_entries()
            entries = part.exchange(part.owners(rows), rows, columns, values[is_stored][source])
            row, column, stored = (entry.cpu().numpy() for entry in entries)
            return sp.csr_matrix((stored, (row - part.start, column)), shape=shape)
        kept = torch.nonzero(is_stored.index_select(0, self.pattern.values)).view(-1)
        stored = values.index_select(0, self.pattern.values[kept]).cpu().numpy()
        starts = torch.searchsorted(kept, self.pattern.starts).cpu().numpy()
        return sp.csr_matrix((stored, self.pattern.columns[kept].cpu().numpy(), starts), shape)


def read_entries(
    block: sp.csr_matrix, layout: Partition, device: str | torch.device
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the rows, columns and values of the entries of this process's rows of a matrix."""
    coo = sp.coo_matrix(block, dtype=np.float64)
    rows, columns = coo.row + np.int64(layout.start), coo.col.astype(np.int64)
    return to_device(rows, device), to_device(columns, device), to_device(coo.data, device)


def pair_keys(n_nodes: int, first: Tensor, second: Tensor) -> Tensor:
    """Return ``min * n_nodes + max`` for each pair."""
    return torch.minimum(first, second) * n_nodes + torch.maximum(first, second)


class SparseAdjacency(GraphOperator):
    """A symmetric graph with a value for each of some pairs; with several processes, a part of it.

    The pattern is built once for all values on the same pairs. Products are differentiable by the
    signals, but not by the values.

    Examples
    --------
    >>> SparseAdjacency.from_scipy(sp.csr_matrix([[0.0, 0.5], [0.5, 0.0]])).to_dense()
    tensor([[0.0000, 0.5000],
            [0.5000, 0.0000]], dtype=torch.float64)
    """

    def __init__(self, pairs: Pairs, values: Float[Tensor, "p"]) -> None:
        self.pairs, self.values = pairs, values  # a weight for each pair

    @classmethod
    def from_scipy(cls, matrix: Any, *, dtype: torch.dtype = torch.float64) -> "SparseAdjacency":
        """Store the upper triangle of a symmetric scipy matrix."""
        csr = sp.csr_matrix(matrix)
        found = cls.from_rows(Partition(csr.shape[0]), csr)
        return cls(found.pairs, found.values.to(dtype))

    @classmethod
    def from_rows(
        cls, layout: Partition, block: sp.csr_matrix, device: str | torch.device = "cpu"
    ) -> "SparseAdjacency":
        """Build from this process's rows of a symmetric matrix, in double precision."""
        if not block.has_canonical_format:
            block = block.copy()
            block.sum_duplicates()
        rows, columns, values = read_entries(block, layout, device)
        is_here = (columns >= layout.start) & (columns < layout.stop)
        mine = (rows <= columns) | ~is_here  # if both entries of a pair are here, take one
        if layout.is_split:
            mine &= layout.pair_owners(rows, columns) == layout.peers.rank
        rows, columns, values = rows[mine], columns[mine], values[mine]
        if not layout.is_split:  # these pairs are already sorted
            return cls(Pairs(layout, rows, columns), values)
        keys, order = pair_keys(layout.n_nodes, rows, columns).sort()
        return cls(Pairs.from_keys(layout, keys), values[order])

    @cached_property
    def _operator(self) -> GraphRows:
        pattern = self.pairs.pattern
        return GraphRows(pattern.with_values(self.values[pattern.values]))

    def entries(self, rows: Int[Tensor, "q"], columns: Int[Tensor, "q"]) -> Float[Tensor, "q"]:
        """Return the weights at these rows and columns, zero where nothing is stored."""
        place, found = self.pairs.locate(pair_keys(self.pairs.n_nodes, rows, columns))
        result = self.values.new_zeros(len(place))
        result[found] = self.values[place[found]]
        return result

    def on_pairs(self, pairs: Pairs) -> Tensor:
        """Return the entries on other pairs, zero where none is stored."""
        return self.entries(pairs.i, pairs.j)

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return self._operator @ x

    def to_dense(self) -> Float[Tensor, "n n"]:
        """Return the full matrix, for small graphs."""
        return self._operator.matrix.to_dense()

    def row_sums(self) -> Float[Tensor, "n"]:
        r"""Return :math:`r = A 1`."""
        return self._operator.row_sums()

    def trace(self) -> Float[Tensor, ""]:
        r"""Return :math:`\operatorname{tr}(A)`."""
        return self.values.index_select(0, self.pairs.loops).sum()

    def __add__(self, other: "SparseAdjacency") -> "SparseAdjacency":
        both = Pairs.from_keys(self.pairs.layout, self.pairs.keys, other.pairs.keys)
        return SparseAdjacency(both, self.on_pairs(both) + other.on_pairs(both))


Adjacency: TypeAlias = DenseAdjacency | SparseAdjacency  # a weighted graph, as terms see it


# Implicit matrices

Tile: TypeAlias = tuple[int, int, Tensor]  # first row, first column and values of a dense block


@dataclass(frozen=True, eq=False)
class LowRankPart:
    r"""The matrix :math:`F_{ij} = c\,\ell_i \cdot r_j` of low rank; it must be symmetric."""

    left: ShardedRows
    right: ShardedRows
    scale: float | int = 1.0

    def on_pairs(self, pairs: Pairs) -> Tensor:
        """Return the entries on this process's pairs."""
        total = torch.zeros(len(pairs), dtype=torch.float64, device=pairs.i.device)
        for mine, near, far, block in pairs.visit(self.right):
            total[mine] = self.left.local.pair_dots(block, near, far)
        return total if self.scale == 1 else total * self.scale


@dataclass(frozen=True, eq=False)
class ImplicitMatrix:
    r"""The matrix :math:`M_{ij} = c + u_i + u_j + t\,[i=j] + P_{ij} + \sum_f F_{ij}`.

    It is never formed: only its entries on pairs, or tiles of it, are computed.
    """

    constant: float | int = 0.0  # the number :math:`c`
    loop: float | int = 0.0  # the number :math:`t` on the diagonal
    nodes: Tensor | None = None  # the vector :math:`u` over all nodes; None: zero
    sparse: SparseAdjacency | None = None  # the symmetric matrix :math:`P`; None: zero
    factors: tuple[LowRankPart, ...] = ()  # the matrices :math:`F`

    def __add__(self, other: "ImplicitMatrix") -> "ImplicitMatrix":
        return add_fields(self, other)

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

    def tiles(self, known: Pairs, fill: float) -> Iterator[Tile]:
        """Yield tiles that together cover every pair once over all processes.

        Each is its first row, its first column and its values, which the caller may change. Entries
        of ``known`` pairs are set to ``fill``. The matrix :math:`P` is left out, since its pairs
        are listed. Tiles on the diagonal are full squares, with both entries of their pairs.
        """
        part = known.layout
        rank, size = torch.tensor(part.peers.rank), part.peers.size
        first, second = part.owners(known.i), part.owners(known.j)
        owner = torch.where(_sweeps(first, second, size), first, second)
        known = Pairs(part, *part.exchange(owner, known.i, known.j))
        rings = [factor.right.blocks() for factor in self.factors]
        for shift in range(size):
            source = (rank - shift) % size
            blocks = [next(ring)[1] for ring in rings]
            if _sweeps(rank, source, size):
                there = slice(*part.bounds[int(source) : int(source) + 2].tolist())
                tiles = self._block_tiles(part.rows, there, blocks, known.i.device)
                for first_row, first_column, values in tiles:
                    n_rows, n_columns = values.shape
                    for rows, columns in ((known.i, known.j), (known.j, known.i)):
                        row, column = rows - first_row, columns - first_column
                        inside = (row >= 0) & (row < n_rows) & (column >= 0) & (column < n_columns)
                        values[row[inside], column[inside]] = fill
                    yield first_row, first_column, values

    def _block_tiles(
        self, here: slice, there: slice, blocks: list[RowMatrix], device: torch.device
    ) -> Iterator[Tile]:
        """Yield the tiles of this process's rows and the columns ``there`` of one process."""
        widest = max((block.n_columns for block in blocks), default=1)
        size = tile_size(widest, block_bytes_on(device))
        for first_column in range(there.start, there.stop, size):
            columns = slice(first_column, min(first_column + size, there.stop))
            local = slice(columns.start - there.start, columns.stop - there.start)
            rights = [block.block(local).to_dense().T for block in blocks]
            last = min(here.stop, columns.stop) if there == here else here.stop
            for first_row in range(here.start, last, size):
                rows = slice(first_row, min(first_row + size, here.stop))
                shape = (rows.stop - rows.start, columns.stop - columns.start)
                values = torch.full(shape, float(self.constant), dtype=torch.float64, device=device)
                if self.nodes is not None:
                    values += self.nodes[rows, None]
                    values += self.nodes[columns]
                local = slice(rows.start - here.start, rows.stop - here.start)
                for factor, right in zip(self.factors, rights):
                    part = factor.left.local.block(local).matmul(right)
                    values.add_(part, alpha=factor.scale)
                if first_row == first_column and self.loop:
                    values.diagonal().add_(self.loop)
                yield first_row, first_column, values


def tile_size(widest: int, block_bytes: int) -> int:
    """Return the rows of a square tile such that it, copies and dense factors fit in a block."""
    entries = max(1, block_bytes // 8)
    return max(1, min(int((entries / 4) ** 0.5), entries // (2 * max(1, widest))))


def add_fields(first: R, second: R) -> R:
    """Return the sum of two records, field by field; a field that is ``None`` counts as zero."""
    sums = []
    for one, other in zip(vars(first).values(), vars(second).values()):
        is_missing = one is None or other is None
        sums.append((other if one is None else one) if is_missing else one + other)
    return type(first)(*sums)
