"""Which pairs are looked at first: the most similar ones of every node."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn._validation import check_choice, check_integer
from glnn.exceptions import MissingDependencyError
from glnn.solver import clusters
from glnn.solver.implicit import (
    BLOCK_BYTES,
    DEVICE_BYTES,
    Factor,
    Matrix,
    dense_bytes,
    dense_rows,
    on_device,
    tile_size,
    times,
)

SEARCHES = ("auto", "exact", "clusters", "faiss")
EXACT_UP_TO = 30_000
"""Rows up to which ``auto`` compares all of them: some seconds on two cores."""

_FAISS_FLAT = 10_000  # rows up to which FAISS compares all of them
_FAISS_ROWS, _FAISS_PROBES = 200, 24  # rows of a list, lists a row looks into
_FAISS_SEEN = 6_000  # rows that a row is compared with at most: some lists are crowded


def nearest(
    signal: Matrix,
    k: int,
    *,
    search: str = "auto",
    block_bytes: int = BLOCK_BYTES,
    device: str = "cpu",
) -> tuple[np.ndarray, np.ndarray]:
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
        inverted index of that package. Both are approximate. ``auto`` is ``exact`` up to
        30,000 rows and ``clusters`` beyond.

    Examples
    --------
    >>> nearest(np.array([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]]), 1)
    (array([0, 1, 2]), array([1, 0, 1]))
    """
    check_choice("search", search, SEARCHES)
    n_nodes = signal.shape[0]
    k = min(check_integer("k", k, low=0), n_nodes - 1)
    if k <= 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if search == "auto":
        search = "exact" if n_nodes <= EXACT_UP_TO else "clusters"
    if search == "faiss":
        found, score = _faiss(signal, k)
    elif search == "clusters":
        found, score = clusters.clustered_nearest(signal, k, device=device)
    else:
        found, score = _exact(signal, k, block_bytes, device)
    rows = np.repeat(np.arange(len(found), dtype=np.int64), found.shape[1])
    kept = (score > 0).ravel()
    return rows[kept], found.ravel()[kept]


def _exact(signal: Matrix, k: int, block_bytes: int, device: str) -> tuple[np.ndarray, np.ndarray]:
    """Return columns and scores of the ``k`` best of each row, block by block in float32."""
    right = signal.astype(np.float32)
    if device != "cpu" and dense_bytes(right) <= DEVICE_BYTES:
        return _exact_on_device(on_device(right, device), k)
    height = tile_size((Factor(right, right),), block_bytes)
    width = _column_width(right, height, block_bytes)
    whole = dense_rows(right, device).T.contiguous() if width >= right.shape[0] else None
    found, score = [], []
    for first in range(0, right.shape[0], height):
        rows = right[first : first + height]
        best: tuple[Tensor, Tensor] | None = None
        for start in range(0, right.shape[0], width):
            columns = dense_rows(right[start : start + width], device).T if whole is None else whole
            tile = times(rows, columns)
            exclude_itself(tile, first - start)
            best = merge_best(best, tile, (first, start), k)
        assert best is not None  # there is at least one block of columns
        score.append(best[0].cpu().numpy())
        found.append(best[1].cpu().numpy())
    return np.concatenate(found), np.concatenate(score)


def _exact_on_device(rows: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the same where all rows lie dense on a device, in tiles of full width."""
    height = max(1, DEVICE_BYTES // (8 * 4 * len(rows)))
    found, score = [], []
    for first in range(0, len(rows), height):
        tile = rows[first : first + height] @ rows.T
        exclude_itself(tile, first)
        best, column = _largest_at_once(tile, first, k)
        score.append(best)
        found.append(column)
    return torch.cat(found).cpu().numpy(), torch.cat(score).cpu().numpy()


def _column_width(right: Matrix, height: int, block_bytes: int) -> int:
    """Columns of a tile so that it and the dense part of the signal fit the block."""
    return max(1, block_bytes // (8 * max(height, int(right.shape[1]))))


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


def _largest_at_once(tile: Tensor, first_row: int, k: int) -> tuple[Tensor, Tensor]:
    """Return the same for a tile of full width, all tied rows together: a GPU is slow to ask."""
    score, column = torch.topk(tile, min(k + 1, tile.shape[1]), dim=1)
    last = score[:, k - 1]
    is_tied = (last > 0) & (score.shape[1] > k) & (score[:, -1] == last)
    score, column = score[:, :k], column[:, :k].clone()
    tied = torch.nonzero(is_tied).view(-1)
    if not len(tied):
        return score, column
    columns = torch.arange(tile.shape[1], device=tile.device)
    lots = _lot((tied + first_row)[:, None], columns).masked_fill_(
        tile[tied] != last[tied, None], 2**32
    )
    equal = torch.topk(lots, k, dim=1, largest=False, sorted=True).indices
    n_sure = (score[tied] > last[tied, None]).sum(1, keepdim=True)  # these come first
    place = torch.arange(k, device=tile.device) - n_sure
    column[tied] = torch.where(place < 0, column[tied], equal.gather(1, place.clamp_min(0)))
    return score, column


def _lot(row: Tensor, column: Tensor) -> Tensor:
    """Return a fixed scrambled number of each pair: ties must not make some nodes favourites."""
    return (row * 40_503 * 65_537 + column * 2_654_435_761) % 2**32


def _faiss(signal: Matrix, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Search an inverted index by inner product; a row's own number is removed.

    Rows are asked for list by list: those that come one after the other look into the same lists,
    which then lie in the processor's cache.
    """
    faiss = _import_faiss()
    base = _float32(signal)
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
    return order[found].astype(np.int64)[back], score[back]  # what was not found scores nothing


def _import_faiss() -> Any:
    try:
        import faiss
    except ImportError:
        raise MissingDependencyError(
            "search='faiss' needs the package faiss; install it with pip install 'glnn[ann]'."
        ) from None
    return faiss


def _float32(signal: Matrix) -> np.ndarray:
    dense = signal.toarray() if sp.issparse(signal) else signal
    return np.ascontiguousarray(dense, dtype=np.float32)
