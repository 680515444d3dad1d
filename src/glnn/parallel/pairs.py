"""Pairs of nodes spread over processes: finding them, comparing their ends, handing them on."""

from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from glnn.peers import Partition
from glnn.solver.candidates import exclude_itself, merge_best
from glnn.solver.implicit import BLOCK_BYTES, Factor, dense_rows, pair_dots, tile_size, times
from glnn.solver.pairs import Pairs, pair_keys

Ends = tuple[np.ndarray, np.ndarray]


def nearest_rows(partition: Partition, signal: Any, k: int, block_bytes: int = BLOCK_BYTES) -> Ends:
    """Return pairs (i, j): for each row i that is here, the most similar rows j anywhere.

    The rows of one process after the other come by; see :func:`glnn.solver.candidates.nearest`.
    """
    own = signal.astype(np.float32)
    height = max(1, min(tile_size((Factor(own, own),), block_bytes), own.shape[0]))
    starts = list(range(0, own.shape[0], height))
    best: list[tuple[Tensor, Tensor] | None] = [None] * len(starts)
    width = max(1, block_bytes // (8 * max(height, int(own.shape[1]))))
    for speaker in range(partition.peers.size):
        block, shift = partition.block_of(own, speaker), int(partition.bounds[speaker])
        for left in range(0, block.shape[0], width):
            columns = dense_rows(block[left : left + width], "cpu").T.contiguous()
            for place, start in enumerate(starts):
                tile = times(own[start : start + height], columns)
                corner = (partition.start + start, shift + left)
                exclude_itself(tile, corner[0] - corner[1])
                best[place] = merge_best(best[place], tile, corner, k)
    score = torch.cat([kept[0] for kept in best if kept is not None]).numpy()
    found = torch.cat([kept[1] for kept in best if kept is not None]).numpy()
    rows = np.repeat(np.arange(partition.start, partition.stop), found.shape[1])
    wanted = (score > 0).ravel()
    return rows[wanted], found.ravel()[wanted].astype(np.int64)


def dots(partition: Partition, left: Any, right: Any, pairs: Pairs) -> np.ndarray:
    r"""Return :math:`\ell_i \cdot r_j` on this process's pairs, for a symmetric product.

    The rows that are here meet those of one process after the other.
    """
    near_first = partition.has(pairs.i)
    near = np.where(near_first, pairs.i, pairs.j) - partition.start
    far = np.where(near_first, pairs.j, pairs.i)
    source = partition.owner(far)
    result = np.zeros(len(pairs))
    for speaker in range(partition.peers.size):
        block, mine = partition.block_of(right, speaker), source == speaker
        places = far[mine] - partition.bounds[speaker]
        result[mine] = pair_dots(left, block, near[mine], places)
    return result


def own_pairs(partition: Partition, parts: list[Ends]) -> Pairs:
    """Return this process's pairs among those that any process names."""
    n_nodes, size = partition.n_nodes, partition.peers.size
    first = np.concatenate([np.asarray(part[0], dtype=np.int64) for part in parts])
    second = np.concatenate([np.asarray(part[1], dtype=np.int64) for part in parts])
    keys = np.unique(pair_keys(n_nodes, first, second))
    owner = partition.pair_owner(*np.divmod(keys, n_nodes))
    received = partition.peers.all_to_all([keys[owner == rank] for rank in range(size)])
    return Pairs.from_keys(n_nodes, np.unique(np.concatenate(received)))


def rows_of(partition: Partition, pairs: Pairs, values: np.ndarray) -> sp.csr_matrix:
    """Return the rows that are here of the graph whose pairs are spread over all processes."""
    stored = values != 0
    i, j, weights = pairs.i[stored], pairs.j[stored], values[stored]
    ends = [(partition.owner(nodes)) for nodes in (i, j)]
    lists = []
    for rank in range(partition.peers.size):
        wanted = (ends[0] == rank) | (ends[1] == rank)
        lists.append((i[wanted], j[wanted], weights[wanted]))
    columns = [partition.peers.all_to_all([part[k] for part in lists]) for k in range(3)]
    i, j, weights = (np.concatenate(column) for column in columns)
    off = i != j
    rows = np.concatenate([i, j[off]]) - partition.start
    here = (rows >= 0) & (rows < partition.n_rows)
    entries = np.concatenate([weights, weights[off]])[here]
    places = (rows[here], np.concatenate([j, i[off]])[here])
    block = sp.csr_matrix((entries, places), shape=(partition.n_rows, partition.n_nodes))
    block.sort_indices()
    return block
