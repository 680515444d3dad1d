"""Pairs of nodes i <= j, each stored once: the unknowns of the graph problem."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True, eq=False)
class Pairs:
    """Distinct pairs ``i <= j`` of ``n_nodes`` nodes, sorted by row, then column.

    Examples
    --------
    >>> pairs = Pairs.union(3, [(np.array([2, 0]), np.array([0, 0]))])
    >>> pairs.i, pairs.j
    (array([0, 0]), array([0, 2]))
    """

    n_nodes: int
    i: np.ndarray
    j: np.ndarray

    @classmethod
    def from_keys(cls, n_nodes: int, keys: np.ndarray) -> "Pairs":
        """Return the pairs with these sorted, distinct keys ``i * n_nodes + j``."""
        i, j = np.divmod(keys, n_nodes)
        return cls(n_nodes, i, j)

    @classmethod
    def union(cls, n_nodes: int, parts: Iterable[tuple[np.ndarray, np.ndarray]]) -> "Pairs":
        """Return every pair named by any of ``parts``, in whichever direction."""
        keys = [pair_keys(n_nodes, first, second) for first, second in parts]
        return cls.from_keys(n_nodes, sorted_distinct([np.empty(0, np.int64), *keys]))

    def __len__(self) -> int:
        return int(self.i.size)

    @cached_property
    def keys(self) -> np.ndarray:
        """The sorted keys ``i * n_nodes + j``."""
        return pair_keys(self.n_nodes, self.i, self.j)

    @cached_property
    def counts(self) -> np.ndarray:
        """How often a pair occurs in the full matrix: twice, once on the diagonal."""
        return np.where(self.i == self.j, 1.0, 2.0)

    def select(self, mask: np.ndarray) -> "Pairs":
        """Return the pairs where ``mask`` holds."""
        chosen = np.flatnonzero(mask)
        return Pairs(self.n_nodes, self.i[chosen], self.j[chosen])

    def contains(self, keys: np.ndarray) -> np.ndarray:
        """Say for each key whether it is one of these pairs."""
        if len(self) == 0:
            return np.zeros(keys.shape, dtype=bool)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self) - 1)
        return np.asarray(self.keys[place] == keys)

    def to_csr(self, values: np.ndarray) -> sp.csr_matrix:
        """Return the symmetric matrix with ``values`` on the pairs; zeros are not stored."""
        stored = values != 0
        i, j, v = self.i[stored], self.j[stored], values[stored]
        off = i != j
        rows, columns = np.concatenate([i, j[off]]), np.concatenate([j, i[off]])
        shape = (self.n_nodes, self.n_nodes)
        matrix = sp.csr_matrix((np.concatenate([v, v[off]]), (rows, columns)), shape=shape)
        matrix.sort_indices()
        return matrix

    def values_of(self, matrix: sp.csr_matrix) -> np.ndarray:
        """Return the entries ``matrix[i, j]`` of a CSR matrix without duplicates."""
        rows, columns, data = upper_entries(matrix)
        values = np.zeros(len(self))
        keys = pair_keys(self.n_nodes, rows, columns)
        mine = self.contains(keys)
        values[np.searchsorted(self.keys, keys[mine])] = data[mine]
        return values


def sorted_distinct(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return each key of any part once, in order; sorting beats hashing for millions of keys.

    Examples
    --------
    >>> sorted_distinct([np.array([3, 1]), np.array([1, 2])])
    array([1, 2, 3])
    """
    keys = np.concatenate(parts)
    keys.sort()
    first = np.ones(keys.size, dtype=bool)
    np.not_equal(keys[1:], keys[:-1], out=first[1:])
    return np.asarray(keys[first])


def pair_keys(n_nodes: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return ``min * n_nodes + max`` for each pair."""
    low, high = np.minimum(first, second), np.maximum(first, second)
    return np.asarray(low.astype(np.int64) * n_nodes + high)


def upper_entries(matrix: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, columns and values of the stored entries with row <= column."""
    rows = np.repeat(np.arange(matrix.shape[0], dtype=np.int64), np.diff(matrix.indptr))
    upper = rows <= matrix.indices
    return rows[upper], matrix.indices[upper].astype(np.int64), matrix.data[upper]
