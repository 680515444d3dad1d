"""Recognising rows that were seen in training, by a digest of their values."""

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

_SIZE = 16


def row_digests(features: Any) -> np.ndarray:
    """Return 16 bytes for each row: equal for equal rows, whether dense or sparse.

    Examples
    --------
    >>> dense = np.array([[0.0, 2.0], [1.0, 0.0]])
    >>> bool((row_digests(dense) == row_digests(sp.csr_matrix(dense))).all())
    True
    """
    csr = sp.csr_matrix(features, dtype=np.float64, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    columns = csr.indices.astype(np.int64)
    digests = np.empty((csr.shape[0], _SIZE), dtype=np.uint8)
    for row, (start, end) in enumerate(zip(csr.indptr[:-1], csr.indptr[1:])):
        content = columns[start:end].tobytes() + csr.data[start:end].tobytes()
        digests[row] = np.frombuffer(
            hashlib.blake2b(content, digest_size=_SIZE).digest(), dtype=np.uint8
        )
    return digests


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
