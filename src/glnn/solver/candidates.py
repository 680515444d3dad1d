"""Candidate edges: the most similar rows of every node, by one of several searches."""

import torch
from torch import Tensor

from glnn.graph.pairs import Ends, ShardedRows, tile_size
from glnn.graph.rows import DENSE_THRESHOLD, RowMatrix, block_bytes_on
from glnn.solver.clusters import search_clusters

# Row-wise top-k over tiles


class BestEntries:
    """The ``k`` largest positive entries of each row of a matrix that comes tile by tile.

    Of equal entries those with the lower :func:`_tie_hash` are kept, so that the result does not
    depend on the tiles. Each entry is one number that sorts: the bits of its value, then the hash.
    """

    def __init__(self, n_rows: int, k: int, first_row: int, device: torch.device) -> None:
        self.columns = torch.zeros(n_rows, k, dtype=torch.int64, device=device)
        self._keys = torch.zeros_like(self.columns)
        self._first_row = first_row

    @property
    def values(self) -> Tensor:
        """The values of the entries in float32, the largest first; 0 where there are fewer."""
        return (self._keys >> 32).int().view(torch.float32)

    def merge_tile(self, tile: Tensor, row: int, column: int) -> None:
        """Merge a tile of the matrix that begins at a row, counted from the first, and a column."""
        k = min(self._keys.shape[1], tile.shape[1])
        least = self.values[row : row + len(tile), -1].clamp_min(torch.finfo(tile.dtype).tiny)
        is_large = tile >= least[:, None]
        if torch.count_nonzero(is_large) > 4 * k * len(tile):
            is_large &= tile >= tile.topk(k).values[:, -1:]
        rows, columns = torch.nonzero(is_large, as_tuple=True)
        if len(rows):
            self._merge(rows + row, columns + column, tile[rows, columns])

    def _merge(self, rows: Tensor, columns: Tensor, values: Tensor) -> None:
        """Merge entries in the order of their rows."""
        changed, counts = torch.unique_consecutive(rows, return_counts=True)
        place = torch.repeat_interleave(torch.arange(len(changed), device=rows.device), counts)
        turn = torch.arange(len(rows), device=rows.device) - (counts.cumsum(0) - counts)[place]
        keys = self._keys.new_zeros(len(changed), int(counts.max()))
        others = torch.zeros_like(keys)
        bits = values.view(torch.int32).long() << 32
        keys[place, turn] = bits + 2**32 - 1 - _tie_hash(rows + self._first_row, columns)
        others[place, turn] = columns
        keys, others = (
            torch.cat([old[changed], new], 1)
            for old, new in ((self._keys, keys), (self.columns, others))
        )
        best = keys.topk(self._keys.shape[1], dim=1)
        self._keys[changed], self.columns[changed] = best.values, others.gather(1, best.indices)


def _tie_hash(row: Tensor, column: Tensor) -> Tensor:
    """Return a fixed hash of each pair, so that ties do not favour some nodes."""
    return (row * 40_503 * 65_537 + column * 2_654_435_761) % 2**32


# Searches

EXACT_UP_TO = 30_000  # rows up to which the search is exact: a few seconds on two cores


def nearest_pairs(signal: ShardedRows, k: int) -> Ends:
    r"""Return pairs (i, j) with the ``k`` rows j of the largest positive :math:`s_i \cdot s_j`.

    The rows i are those of this process, the rows j those of all. Up to 30,000 rows all of them are
    compared, in O(N²) time; beyond, only rows of nearby clusters, in about O(N) time, which is
    approximate (:mod:`glnn.solver.clusters`).
    """
    layout = signal.layout
    k = min(k, layout.n_nodes - 1)
    if k <= 0:
        none = torch.empty(0, dtype=torch.int64, device=signal.local.device)
        return none, none
    search = search_exact if layout.n_nodes <= EXACT_UP_TO else search_clusters
    found, score = search(signal, k)
    own = torch.arange(layout.start, layout.stop, device=found.device)
    kept = score > 0
    return own[:, None].expand_as(found)[kept], found[kept]


def search_exact(signal: ShardedRows, k: int) -> tuple[Tensor, Tensor]:
    """Return columns and scores of the ``k`` best rows for each row; missing ones have score 0.

    Scores are in float32. The products of this process's rows with each other are symmetric, so
    half of them are computed.
    """
    rows = signal.with_local(signal.local.to(torch.float32)).densify(DENSE_THRESHOLD)
    best = BestEntries(len(rows.local), k, signal.layout.start, rows.local.device)
    side = 2 * tile_size(rows.local.n_columns, block_bytes_on(rows.local.device))  # in float32
    lefts = _split_rows(rows.local, side)
    for source, block in rows.blocks():
        first_column, is_own = int(signal.layout.bounds[source]), block is rows.local
        for shift, right in _split_rows(block, side):
            columns = right.to_dense().T.contiguous()
            for first, left in reversed(lefts):
                if is_own and first > shift:
                    continue  # the mirror images of these products are merged
                tile = left.matmul(columns)
                if is_own and first == shift:
                    tile.fill_diagonal_(-torch.inf)
                elif is_own:
                    best.merge_tile(tile.T, shift, first_column + first)
                best.merge_tile(tile, first, first_column + shift)
    return best.columns, best.values


def _split_rows(rows: RowMatrix, height: int) -> list[tuple[int, RowMatrix]]:
    """Split the rows into blocks of ``height``, each with the number of its first row."""
    return [
        (first, rows.block(slice(first, first + height))) for first in range(0, len(rows), height)
    ]
