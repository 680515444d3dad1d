"""Which pairs are looked at first: the most similar ones of every node."""

from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from glnn._utils import check_choice, check_integer
from glnn.exceptions import InputError, MissingDependencyError
from glnn.graph.pairs import SpreadRows, spread, tile_size
from glnn.graph.rows import BLOCK_BYTES, DENSE_FROM, RowMatrix, block_bytes_of, row_matrix
from glnn.solver import clusters
from glnn.solver.signals import Matrix

# --- ties: The largest numbers of every row of a matrix that comes tile by tile, ties broken fairl


def exclude_itself(tile: Tensor, shift: int) -> None:
    """Mark the entries (r, r + shift), where a row meets itself."""
    if -tile.shape[0] < shift < tile.shape[1]:
        tile.diagonal(offset=shift).fill_(-torch.inf)


def merge_best(
    best: tuple[Tensor, Tensor] | None, tile: Tensor, corner: tuple[int, int], k: int
) -> tuple[Tensor, Tensor]:
    """Keep the ``k`` largest of what was found and of the tile that begins at ``corner``.

    Of equal ones those with the lower :func:`_lot` are kept, so that the answer does not depend on
    how rows and columns were cut into tiles.
    """
    first_row, first_column = corner
    rows = torch.arange(first_row, first_row + len(tile), device=tile.device)[:, None]
    score, column = _largest(tile, rows, first_column, min(k, tile.shape[1]))
    if best is None:
        return score, column
    score, column = torch.cat([best[0], score], 1), torch.cat([best[1], column], 1)
    by_lot = _lot(rows, column).argsort(dim=1)
    score, column = score.gather(1, by_lot), column.gather(1, by_lot)
    score, place = torch.sort(score, dim=1, descending=True, stable=True)
    return score[:, :k], column.gather(1, place[:, :k])


def _largest(tile: Tensor, rows: Tensor, start: int, k: int) -> tuple[Tensor, Tensor]:
    """Return the ``k`` largest of each row with their columns, counted from ``start``.

    One more is looked at: if it equals the last, columns were left out that are as good. Where
    that is not positive, the caller has no use for it.
    """
    score, column = torch.topk(tile, min(k + 1, tile.shape[1]), dim=1)
    last = score[:, k - 1]
    is_tied = (last > 0) & (score.shape[1] > k) & (score[:, -1] == last)
    score, column = score[:, :k], column[:, :k]
    tied = torch.nonzero(is_tied).view(-1)
    n_wanted = (score[tied] == last[tied, None]).sum(1)
    at, equal = torch.nonzero(tile[tied] == last[tied, None], as_tuple=True)
    order = (at * 2**32 + _lot(rows[tied[at], 0], equal + start)).argsort()  # a row's lots in turn
    at, equal = at[order], equal[order]
    turn = torch.arange(len(at), device=at.device) - torch.searchsorted(at, at)
    drawn = turn < n_wanted[at]
    at, place = at[drawn], (k - n_wanted[at] + turn)[drawn]
    column[tied[at], place] = equal[drawn]
    return score, column + start


def _lot(row: Tensor, column: Tensor) -> Tensor:
    """Return a fixed scrambled number of each pair: ties must not make some nodes favourites."""
    return (row * 40_503 * 65_537 + column * 2_654_435_761) % 2**32


# --- candidates: Which pairs are looked at first: the most similar ones of every node

Search = Literal["auto", "exact", "clusters", "faiss"]
"""How similar rows are searched for."""

SEARCHES: tuple[Search, ...] = get_args(Search)
EXACT_UP_TO = 30_000
"""Rows up to which ``auto`` compares all of them: some seconds on two cores."""

_FAISS_FLAT = 10_000  # rows up to which FAISS compares all of them
_FAISS_ROWS, _FAISS_PROBES = 200, 24  # rows of a list, lists a row looks into
_FAISS_SEEN = 6_000  # rows that a row is compared with at most: some lists are crowded

Ends = tuple[np.ndarray, np.ndarray]


def nearest(
    signal: Matrix,
    k: int,
    *,
    search: Search = "auto",
    block_bytes: int = BLOCK_BYTES,
    device: str = "cpu",
) -> Ends:
    r"""Return pairs (i, j): the ``k`` rows j with the largest positive :math:`s_i \cdot s_j`.

    Parameters
    ----------
    signal
        Signal rows, dense or CSR. Rows of length one make the product the cosine.
    k
        Neighbours of each row; fewer come where fewer rows have a positive product.
    search
        ``exact`` compares all rows in blocks, in time N². ``clusters`` compares rows of near
        clusters, in time about N (:mod:`glnn.solver.clusters`); ``faiss`` does the same by an
        inverted index of that package. Both are approximate. ``auto`` (default) is ``exact`` up
        to 30,000 rows and ``clusters`` beyond.
    block_bytes, device
        Memory for one block of products, and where they are taken.

    Examples
    --------
    >>> nearest(np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), 1)
    (array([0, 1, 2]), array([1, 0, 1]))
    """
    check_choice("search", search, SEARCHES)
    rows = spread(row_matrix(signal, device=device))
    i, j = nearest_pairs(rows, k, search=search, block_bytes=block_bytes)
    return i.cpu().numpy(), j.cpu().numpy()


def nearest_pairs(
    signal: SpreadRows, k: int, *, search: Search = "auto", block_bytes: int = BLOCK_BYTES
) -> tuple[Tensor, Tensor]:
    """Return the same for the rows i of this process and the rows j of all processes."""
    part = signal.partition
    k = min(check_integer("k", k, low=0), part.n_nodes - 1)
    if k <= 0:
        none = torch.empty(0, dtype=torch.int64, device=signal.own.device)
        return none, none
    if search == "auto":
        search = "exact" if part.n_nodes <= EXACT_UP_TO else "clusters"
    if search == "faiss":
        found, score = _faiss(signal, k)
    elif search == "clusters":
        found, score = clusters.clustered_nearest(signal, k)
    else:
        found, score = _exact(signal, k, block_bytes)
    own = torch.arange(part.start, part.stop, device=found.device)
    kept = score > 0
    return own[:, None].expand_as(found)[kept], found[kept]


def _exact(signal: SpreadRows, k: int, block_bytes: int) -> tuple[Tensor, Tensor]:
    """Return columns and scores of the ``k`` best of each row, block by block in float32."""
    part = signal.partition
    rows = signal.with_own(signal.own.to(torch.float32)).dense_from(DENSE_FROM)
    room = block_bytes_of(rows.own.device, block_bytes)
    height = tile_size(rows.own.n_columns, room)
    width = max(1, room // (8 * max(min(height, part.n_rows), rows.own.n_columns)))
    lefts = _blocks(rows.own, height)
    best: list[tuple[Tensor, Tensor] | None] = [None] * len(lefts)
    for rank, block in rows.blocks():
        for start, right in _blocks(block, width):
            columns = right.dense().T.contiguous()
            for number, (first, left) in enumerate(lefts):
                tile = left.times(columns)
                corner = (part.start + first, int(part.bounds[rank]) + start)
                exclude_itself(tile, corner[0] - corner[1])
                best[number] = merge_best(best[number], tile, corner, k)
    kept = [part for part in best if part is not None]
    return torch.cat([column for _, column in kept]), torch.cat([score for score, _ in kept])


def _blocks(rows: RowMatrix, height: int) -> list[tuple[int, RowMatrix]]:
    """Return consecutive rows, this many at a time, with the number of the first."""
    return [
        (first, rows.block(slice(first, first + height))) for first in range(0, len(rows), height)
    ]


def _faiss(signal: SpreadRows, k: int) -> tuple[Tensor, Tensor]:
    """Search an inverted index by inner product; a row's own number is removed.

    Rows are asked for list by list: those that come one after the other look into the same lists,
    which then lie in the processor's cache.
    """
    if signal.partition.peers.size > 1:
        raise InputError("search='faiss' must run in one process. Take search='clusters'.")
    faiss = _import_faiss()
    base = signal.own.to(torch.float32).dense().cpu().contiguous().numpy()
    n_nodes, width = base.shape
    order = np.arange(n_nodes)
    if n_nodes <= _FAISS_FLAT:
        index = faiss.IndexFlatIP(width)
    else:
        n_lists = min(clusters.MOST_CLUSTERS, n_nodes // _FAISS_ROWS)
        lists = faiss.IndexFlatIP(width)
        index = faiss.IndexIVFFlat(lists, width, n_lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.min_points_per_centroid = 1
        index.cp.max_points_per_centroid = clusters.SAMPLE
        index.cp.niter = clusters.TURNS
        index.train(base)
        index.nprobe, index.max_codes = min(n_lists, _FAISS_PROBES), _FAISS_SEEN
        order = np.argsort(lists.search(base, 1)[1][:, 0], kind="stable")
        base = base[order]
    index.add(base)
    score, found = index.search(base, k + 1)
    itself = found == np.arange(n_nodes)[:, None]
    itself[~itself.any(1), -1] = True  # not among its own best: drop the last one instead
    kept = ~itself
    found, score = found[kept].reshape(n_nodes, k), score[kept].reshape(n_nodes, k)
    back = np.empty_like(order)
    back[order] = np.arange(n_nodes)
    found = order[found].astype(np.int64)[back]  # what was not found scores nothing
    device = signal.own.device
    return torch.from_numpy(found).to(device), torch.from_numpy(score[back]).to(device)


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingDependencyError(
            "search='faiss' needs the package faiss; install it with pip install 'glnn[ann]'."
        ) from None
    return faiss
