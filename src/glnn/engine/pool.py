"""Rows of spread features that a head trains on: some nodes, known to every process."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from glnn.graph.base import GraphOperator
from glnn.nn.features import Features
from glnn.nn.rows import RowNet
from glnn.peers import Partition

_BLOCK = 2**22
"""Numbers in a block of feature columns: few enough for a processor's cache."""

_WIDE, _MOST = 64, 2**24
"""Narrower blocks take longer for each column, so they may have more numbers, up to this."""

_ROOM = 128
"""Bytes of a device's free memory for each number: a block is spread in several copies."""

_MAX_NUMBERS = 2**27
"""Numbers in all rows of a pool, unless labelled and validation nodes alone have more."""

_VARIES = 1e-5
"""A column whose deviation is at most this share of its largest entry is constant."""


@dataclass(frozen=True)
class Pool:
    """Standardised rows of some nodes, the same in every process.

    Parameters
    ----------
    rows
        What the head sees of each node.
    nodes
        Their numbers: labelled nodes, then validation nodes, then others.
    """

    rows: Float[Tensor, "p f"]
    nodes: Int[Tensor, "p"]

    @classmethod
    def of(
        cls,
        module: RowNet,
        walk: GraphOperator,
        features: Features,
        nodes: np.ndarray,
        partition: Partition,
    ) -> "Pool":
        """Spread the features of all nodes, keep those of some, tell the module their statistics.

        ``features`` are those of this process's rows.
        """
        device = module.norm.scale.device
        picked = torch.from_numpy(nodes[partition.has(nodes)] - partition.start).to(device)
        blocks = [module.spread(walk, x)[picked] for x in _column_blocks(features)]
        spread = blocks[0] if len(blocks) == 1 else torch.cat(blocks, 2)
        rows = _everyones(spread.flatten(1), nodes, partition)
        module.norm.measure(*_statistics(rows))
        return cls(module.norm.standardized(rows), torch.from_numpy(nodes).to(device))


def pool_nodes(
    labelled: np.ndarray,
    watched: np.ndarray,
    n_others: int,
    n_nodes: int,
    n_columns: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return labelled, validation and random other nodes, in this order and each once.

    There are ``n_others`` others at most, and as many as fit into a pool of this many columns.

    Examples
    --------
    >>> pool_nodes(np.array([3]), np.array([1]), 9, 4, 2, np.random.default_rng(0))
    array([3, 1, 0, 2])
    """
    is_other = np.ones(n_nodes, dtype=bool)
    is_other[labelled] = is_other[watched] = False
    rest = np.flatnonzero(is_other)
    room = max(0, _MAX_NUMBERS // max(1, n_columns) - len(labelled) - len(watched))
    n_others = min(n_others, len(rest), room)
    others = rest if n_others == len(rest) else np.sort(rng.choice(rest, n_others, replace=False))
    return np.concatenate([labelled, watched, others])


def _block_width(n_rows: int, device: torch.device) -> int:
    """Return how many columns are spread at once: as many as there is room for on a GPU."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return max(1, max(_MOST, free // _ROOM) // n_rows)
    return max(1, _BLOCK // n_rows, min(_WIDE, _MOST // n_rows))


def _column_blocks(features: Features) -> Iterator[Float[Tensor, "n d"]]:
    """Yield the features dense, some columns at a time."""
    n_rows, n_columns = features.shape
    width = _block_width(max(1, n_rows), features.device)
    for first in range(0, n_columns, width):
        yield features.columns(first, min(first + width, n_columns))


def _statistics(rows: Float[Tensor, "p f"]) -> tuple[Float[Tensor, "f"], Float[Tensor, "f"]]:
    """Return mean and deviation of each column; the deviation of a constant one is zero."""
    deviation, mean = torch.std_mean(rows, 0, correction=0)
    most = mean.abs() + 2 * math.sqrt(len(rows)) * deviation  # no entry of a column is larger
    doubtful = (deviation <= _VARIES * most).nonzero().view(-1)
    low, high = torch.aminmax(rows[:, doubtful], dim=0)
    is_constant = deviation[doubtful] <= _VARIES * torch.maximum(-low, high)
    return mean, deviation.index_fill(0, doubtful[is_constant], 0.0)


def _everyones(
    rows: Float[Tensor, "m f"], nodes: np.ndarray, partition: Partition
) -> Float[Tensor, "p f"]:
    """Return the rows of all nodes of the pool, of which each process gives its own."""
    if partition.peers.size == 1:
        return rows
    whole = rows.new_zeros(len(nodes), rows.shape[1])
    whole[torch.from_numpy(partition.has(nodes)).to(rows.device)] = rows
    return partition.peers.all_reduce_(whole)
