"""Which rows and which pairs of nodes belong to which process."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.exceptions import InputError
from glnn.peers.base import Peers


@dataclass(frozen=True, eq=False)
class Partition:
    r"""Contiguous blocks of rows, one a process, of nearly equal heights.

    A pair of nodes :math:`i \le j` belongs to the owner of row ``i`` if ``i + j`` is even, of row
    ``j`` otherwise: so each process holds about as many pairs as every other, and each of its
    pairs has an end among its rows.

    Examples
    --------
    >>> whole = Partition(5, Peers())
    >>> whole.rows
    slice(0, 5, None)
    """

    n_nodes: int
    peers: Peers

    def __post_init__(self) -> None:
        if self.n_nodes < self.peers.size:
            raise InputError(
                f"a fit over {self.peers.size} processes must have at least as many rows, "
                f"got {self.n_nodes}. Start fewer processes."
            )

    @cached_property
    def bounds(self) -> np.ndarray:
        """First row of every block, and the number of nodes."""
        size = self.peers.size
        return self.n_nodes * np.arange(size + 1, dtype=np.int64) // size

    @property
    def start(self) -> int:
        """First row of this process."""
        return int(self.bounds[self.peers.rank])

    @property
    def stop(self) -> int:
        """First row after those of this process."""
        return int(self.bounds[self.peers.rank + 1])

    @property
    def n_rows(self) -> int:
        """Number of rows of this process."""
        return self.stop - self.start

    @property
    def rows(self) -> slice:
        """The rows of this process."""
        return slice(self.start, self.stop)

    def owner(self, nodes: np.ndarray) -> np.ndarray:
        """Return the process that has each node's row."""
        return np.searchsorted(self.bounds, nodes, side="right") - 1

    def has(self, nodes: np.ndarray) -> np.ndarray:
        """Say which nodes' rows are here."""
        return np.asarray((nodes >= self.start) & (nodes < self.stop))

    def counts(self, count: int) -> np.ndarray:
        """Return everyone's counts."""
        counts = np.zeros(self.peers.size, dtype=np.int64)
        counts[self.peers.rank] = count
        return self.peers.all_reduce(counts)

    def everyone(self, rows: np.ndarray) -> np.ndarray:
        """Return a vector over all nodes of which each process gives its rows."""
        whole = np.zeros((self.n_nodes, *rows.shape[1:]), dtype=rows.dtype)
        whole[self.rows] = rows
        return self.peers.all_reduce(whole)

    def block_of(self, matrix: Any, speaker: int) -> Any:
        """Return the speaker's rows of a matrix, dense or CSR, of which each has its own."""
        mine = self.peers.rank == speaker
        if not sp.issparse(matrix):
            return self.peers.broadcast(np.ascontiguousarray(matrix) if mine else None, speaker)
        names = ("data", "indices", "indptr")
        parts = [self.peers.broadcast(getattr(matrix, n) if mine else None, speaker) for n in names]
        height = int(self.bounds[speaker + 1] - self.bounds[speaker])
        return sp.csr_matrix(tuple(parts), shape=(height, matrix.shape[1]))

    def collected(self, matrix: Any) -> Any:
        """Return the whole matrix in process 0, ``None`` elsewhere."""
        if self.peers.size == 1:
            return matrix
        blocks = []
        for speaker in range(self.peers.size):
            block = self.block_of(matrix, speaker)
            if self.peers.rank == 0:
                blocks.append(block)
        if not blocks:
            return None
        if sp.issparse(matrix):
            whole = sp.csr_matrix(sp.vstack(blocks, format="csr"))
            whole.sort_indices()
            return whole
        return np.concatenate(blocks)
