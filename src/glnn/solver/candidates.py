"""Which pairs are looked at first: the most similar ones of every node."""

from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from glnn._validation import check_choice, check_integer
from glnn.exceptions import InputError, MissingDependencyError
from glnn.graph.implicit import tile_size
from glnn.graph.row_base import BLOCK_BYTES, DENSE_FROM, RowMatrix, block_bytes_of
from glnn.graph.row_matrix import row_matrix
from glnn.graph.spread import SpreadRows, spread
from glnn.solver import centres, clusters
from glnn.solver.signals import Matrix
from glnn.solver.ties import exclude_itself, merge_best

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
        index.cp.max_points_per_centroid = centres.SAMPLE
        index.cp.niter = centres.TURNS
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
