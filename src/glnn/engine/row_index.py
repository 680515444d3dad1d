"""Recognising rows that were seen in training, by a digest of their values."""

import hashlib
import itertools
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.graph.dense_rows import dense_rows

_SIZE = 16
_BLOCK = 4096
"""Dense rows that are looked at together: few enough to stay in the processor's cache."""

_NONE = np.empty((0, _SIZE), dtype=np.uint8)


def row_digests(features: Any) -> np.ndarray:
    """Return 16 bytes for each row: equal for equal rows, whether dense or sparse.

    Examples
    --------
    >>> dense = np.array([[0.0, 2.0], [1.0, 0.0]])
    >>> bool((row_digests(dense) == row_digests(sp.csr_matrix(dense))).all())
    True
    """
    if sp.issparse(features) and features.nnz < features.shape[0] * features.shape[1]:
        return _of_stored(features)
    rows = dense_rows(features)
    starts = range(0, len(rows), _BLOCK)
    return np.concatenate([_NONE, *(_of_dense(rows[start : start + _BLOCK]) for start in starts)])


def _of_dense(rows: np.ndarray) -> np.ndarray:
    """Return the digests of some dense rows; those without a zero need no search for it."""
    rows = np.ascontiguousarray(rows, dtype=np.float64)
    is_full = (rows != 0).all(1)
    found = np.empty((len(rows), _SIZE), dtype=np.uint8)
    found[is_full] = _of_full(rows[is_full])
    if not is_full.all():
        found[~is_full] = _of_stored(rows[~is_full])
    return found


def _of_full(rows: np.ndarray) -> np.ndarray:
    """Return the digests of rows without a zero, whose columns are all the same."""
    columns = hashlib.blake2b(np.arange(rows.shape[1], dtype=np.int64).tobytes(), digest_size=_SIZE)
    digests = []
    for row in rows:
        content = columns.copy()
        content.update(row)
        digests.append(content.digest())
    return _joined(digests)


def _of_stored(rows: Any) -> np.ndarray:
    """Return the digests of rows of which some entries are stored."""
    csr = sp.csr_matrix(rows, dtype=np.float64, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    columns, values = csr.indices.astype(np.int64).tobytes(), csr.data.tobytes()
    bounds = (8 * csr.indptr.astype(np.int64)).tolist()  # columns and values have 8 bytes each
    return _joined(
        [
            hashlib.blake2b(columns[start:end] + values[start:end], digest_size=_SIZE).digest()
            for start, end in itertools.pairwise(bounds)
        ]
    )


def _joined(digests: list[bytes]) -> np.ndarray:
    return np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(-1, _SIZE)


def known_distributions(
    digests: np.ndarray, trained: np.ndarray, distributions: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return which rows were seen in training, and the distributions of those.

    A row that equals several training rows gets the mean of their distributions. All the training
    rows in their order get exactly their own.
    """
    if digests.shape == trained.shape and (digests == trained).all():
        return np.ones(len(digests), dtype=bool), distributions
    keys, group = np.unique(_keys(trained), return_inverse=True)
    sums = np.zeros((len(keys), distributions.shape[1]))
    np.add.at(sums, group, distributions)
    means = sums / np.bincount(group)[:, None]
    place = np.searchsorted(keys, _keys(digests)).clip(max=len(keys) - 1)
    seen = keys[place] == _keys(digests)
    return seen, means[place[seen]]


def _keys(digests: np.ndarray) -> np.ndarray:
    """View rows of bytes as single values that sort and compare."""
    return np.ascontiguousarray(digests).view(np.dtype((np.void, _SIZE))).ravel()
