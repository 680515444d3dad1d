"""Candidate edges: the most similar rows of every node, by one of several searches."""

import torch
from torch import Tensor

from glnn.graph.pairs import Ends, ShardedRows, tile_size
from glnn.graph.rows import DENSE_THRESHOLD, RowMatrix, block_bytes_on
from glnn.solver.clusters import search_clusters

# Row-wise top-k over tiles; ties are broken by a fixed hash.


def merge_topk(
    best: tuple[Tensor, Tensor], tile: Tensor, corner: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """Merge the best entries of each row so far with those of the tile that begins at ``corner``.

    ``best`` are their values and columns. Of equal entries those with the lower :func:`_tie_hash`
    are kept, so that the result does not depend on the tiles.
    """
    (first_row, first_column), k = corner, best[0].shape[1]
    rows = torch.arange(first_row, first_row + len(tile), device=tile.device)[:, None]
    score, column = _tile_topk(tile, rows, first_column, min(k, tile.shape[1]))
    score, column = torch.cat([best[0], score], 1), torch.cat([best[1], column], 1)
    by_hash = _tie_hash(rows, column).argsort(dim=1)
    score, column = score.gather(1, by_hash), column.gather(1, by_hash)
    score, place = torch.sort(score, dim=1, descending=True, stable=True)
    return score[:, :k], column.gather(1, place[:, :k])


def _tile_topk(tile: Tensor, rows: Tensor, start: int, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` largest entries of each row and their columns, counted from ``start``.

    The entry after the last one shows whether ``topk`` has cut through a tie; ties of entries that
    are not positive are ignored, because the caller drops such entries.
    """
    score, column = torch.topk(tile, min(k + 1, tile.shape[1]), dim=1)
    last = score[:, k - 1]
    is_tied = (last > 0) & (score.shape[1] > k) & (score[:, -1] == last)
    score, column = score[:, :k], column[:, :k]
    tied = torch.nonzero(is_tied).view(-1)
    n_wanted = (score[tied] == last[tied, None]).sum(1)
    at, equal = torch.nonzero(tile[tied] == last[tied, None], as_tuple=True)
    # by row, then by hash
    order = (at * 2**32 + _tie_hash(rows[tied[at], 0], equal + start)).argsort()
    at, equal = at[order], equal[order]
    turn = torch.arange(len(at), device=at.device) - torch.searchsorted(at, at)
    drawn = turn < n_wanted[at]
    at, place = at[drawn], (k - n_wanted[at] + turn)[drawn]
    column[tied[at], place] = equal[drawn]
    return score, column + start


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
    """Return columns and scores of the ``k`` best rows for each row, in float32.

    The products of this process's rows with each other are symmetric, so half are computed.
    """
    start = signal.layout.start
    rows = signal.with_local(signal.local.to(torch.float32)).densify(DENSE_THRESHOLD)
    score = torch.full((len(rows.local), k), -torch.inf, device=rows.local.device)
    found = torch.zeros(score.shape, dtype=torch.int64, device=score.device)

    def merge(tile: Tensor, first_row: int, first_column: int) -> None:
        here = slice(first_row, first_row + len(tile))
        corner = (start + first_row, first_column)
        score[here], found[here] = merge_topk((score[here], found[here]), tile, corner)

    side = 2 * tile_size(rows.local.n_columns, block_bytes_on(score.device))  # in float32
    lefts = _split_rows(rows.local, side)
    for source, block in rows.blocks():
        first_column = int(signal.layout.bounds[source])
        for shift, right in _split_rows(block, side):
            columns = right.to_dense().T.contiguous()
            for first, left in lefts:
                is_own = block is rows.local
                if is_own and first > shift:
                    break  # their mirror images were merged
                tile = left.matmul(columns)
                if is_own and first == shift:
                    tile.fill_diagonal_(-torch.inf)
                elif is_own:
                    merge(tile.T.contiguous(), shift, first_column + first)
                merge(tile, first, first_column + shift)
    return found, score


def _split_rows(rows: RowMatrix, height: int) -> list[tuple[int, RowMatrix]]:
    """Split the rows into blocks of ``height``, each with the number of its first row."""
    return [
        (first, rows.block(slice(first, first + height))) for first in range(0, len(rows), height)
    ]
