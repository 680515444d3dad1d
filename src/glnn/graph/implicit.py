"""Symmetric N x N matrices that are never formed: read on pairs or tile by tile."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from glnn.graph.pairs import Pairs, PairValues
from glnn.graph.row_base import BLOCK_BYTES, RowMatrix, block_bytes_of
from glnn.graph.spread import SpreadRows, meets
from glnn.peers import Partition


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
