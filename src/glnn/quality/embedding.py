r"""Nodes as the network compares them: features spread over the learned graph, in few columns.

Everything before the network's weights is the product :math:`S X`, with :math:`S` the spread of
its head over the learned graph. Its leading directions are enough to say which nodes are alike.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float

from glnn._validation import check_integer
from glnn.graph.dense_rows import dense_rows

Spread = Callable[[np.ndarray], np.ndarray]
"""The product of a symmetric matrix of nodes with columns of signals."""

_MORE = 10  # directions beyond those kept, which make the kept ones accurate
_POWERS = 2  # products with S X and its transpose that separate large directions from small ones


def embedding(
    features: Any, spread: Spread, *, n_columns: int = 100, seed: int = 0
) -> Float[np.ndarray, "n d"]:
    r"""Return the leading directions of :math:`S X`: rows with nearly the same products.

    A randomised range finder (Halko, Martinsson and Tropp 2011) needs products with :math:`S` and
    :math:`X` alone, so the cost grows with what they store.

    Parameters
    ----------
    features
        The features :math:`X`, dense or sparse.
    spread
        Returns :math:`S V` for a dense matrix :math:`V`; :math:`S` is symmetric.
    n_columns
        Directions to keep, at least 1; all of them where the features have fewer columns.
    seed
        Of the random start.

    Examples
    --------
    >>> rows = embedding(np.array([[1.0, 2.0], [0.0, 1.0]]), lambda v: v)
    >>> rows @ rows.T
    array([[5., 2.],
           [2., 1.]])
    """
    check_integer("n_columns", n_columns, low=1)
    n_features = features.shape[1]
    if n_features <= n_columns + _MORE:
        return spread(_dense(features))
    rng = np.random.default_rng(seed)
    found = spread(np.asarray(features @ rng.standard_normal((n_features, n_columns + _MORE))))
    for _ in range(_POWERS):
        basis, _ = np.linalg.qr(features.T @ spread(np.linalg.qr(found)[0]))
        found = spread(np.asarray(features @ basis))
    left, size, _ = np.linalg.svd(found, full_matrices=False)
    return np.asarray(left[:, :n_columns] * size[:n_columns])


def unit_rows(rows: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """Return rows with the mean row subtracted, then of length one; zero rows stay zero."""
    centred = rows - rows.mean(0)
    length = np.linalg.norm(centred, axis=1, keepdims=True)
    return np.asarray(np.divide(centred, length, out=np.zeros_like(centred), where=length > 0))


def _dense(features: Any) -> np.ndarray:
    return np.asarray(dense_rows(features), dtype=np.float64)
