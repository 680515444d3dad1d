"""What made each link, in the words and columns that the page names."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from glnn.quality.fitted import FittedNodes
from glnn.quality.importance import metric_weights
from glnn.report.explained import REST, TERM_WORDS
from glnn.report.page.data import LinkTerms
from glnn.report.page.links import upper_links
from glnn.solver.shares import LinkShares

N_NAMED = 2
"""Columns that are named for each link."""

_BLOCK = 20_000
_MOST_COLUMNS = 15


def link_terms(nodes: FittedNodes) -> LinkTerms | None:
    """Return the shares of each link above the diagonal, and the columns that say most for it.

    Nothing is known of a graph that was not solved for: the preset ``literal``, a prior graph that
    was taken as it is, and fits over several processes.
    """
    adjacency, shares = nodes.adjacency, nodes.shares
    if shares is None or len(shares.values) != adjacency.nnz:
        return None
    rows = np.repeat(np.arange(adjacency.shape[0]), np.diff(adjacency.indptr))
    upper = (adjacency.indices > rows) & (adjacency.data != 0)
    names, values = in_words(shares.names, shares.values[upper])
    links = upper_links(adjacency)
    columns, parts = named_columns(shares, nodes.signals, links.row, links.col)
    return LinkTerms(names, values, tuple(nodes.column_names), columns, parts)


def metric_columns(nodes: FittedNodes) -> tuple[tuple[str, float], ...]:
    """Return the columns that count most in the learned similarity; none if all count alike."""
    weights = metric_weights(nodes.shares, len(nodes.column_names))
    if np.ptp(weights) < 1e-9:
        return ()
    first = np.argsort(-weights, kind="stable")[:_MOST_COLUMNS]
    return tuple((nodes.column_names[c], float(weights[c])) for c in first)


def in_words(
    names: Sequence[str], values: Float[np.ndarray, "e t"]
) -> tuple[tuple[str, ...], Float[np.ndarray, "e k"]]:
    """Return the terms by the words of the page; penalties are summed.

    Examples
    --------
    >>> in_words(["smoothness", "row_sums", "loops"], np.array([[3.0, -1.0, -0.5]]))
    (('similarity', 'penalties'), array([[ 3. , -1.5]]))
    """
    said = [TERM_WORDS.get(name, REST) for name in names]
    kept = tuple(dict.fromkeys(said))
    sums = [values[:, [word == one for word in said]].sum(1) for one in kept]
    return kept, np.stack(sums, 1) if sums else np.zeros((len(values), 0))


def named_columns(
    shares: LinkShares, features: Any, first: np.ndarray, second: np.ndarray
) -> tuple[Int[np.ndarray, "e k"], Float[np.ndarray, "e k"]]:
    """Return the columns that give most to each link, and their shares of all that columns give.

    A link that similarity says nothing for has shares of zero.
    """
    n_named = min(N_NAMED, features.shape[1])
    found = np.zeros((len(first), n_named), np.int64)
    parts = np.zeros((len(first), n_named))
    if shares.metric is None or shares.metric.ndim == 2:
        return found, parts
    signal = sp.csr_matrix(shares.transform.transform(features))
    weighted = sp.csr_matrix(signal @ sp.diags(np.broadcast_to(shares.metric, signal.shape[1])))
    for start in range(0, len(first), _BLOCK):
        block = slice(start, start + _BLOCK)
        given = sp.csr_matrix(signal[first[block]].multiply(weighted[second[block]]))
        found[block], parts[block] = _largest(given, n_named)
    return found, parts


def _largest(
    given: sp.csr_matrix, n_named: int
) -> tuple[Int[np.ndarray, "b k"], Float[np.ndarray, "b k"]]:
    """Return the columns of the largest positive entries of each row, and their shares of it."""
    rows = np.repeat(np.arange(given.shape[0]), np.diff(given.indptr))
    kept = given.data > 0
    rows, columns, values = rows[kept], given.indices[kept], given.data[kept]
    order = np.lexsort((-values, rows))
    rows, columns, values = rows[order], columns[order], values[order]
    starts = np.searchsorted(rows, np.arange(given.shape[0] + 1))
    totals = np.bincount(rows, values, minlength=given.shape[0])
    found = np.zeros((given.shape[0], n_named), np.int64)
    parts = np.zeros((given.shape[0], n_named))
    for rank in range(n_named):
        has = np.flatnonzero(starts[1:] - starts[:-1] > rank)
        at = starts[has] + rank
        found[has, rank] = columns[at]
        parts[has, rank] = values[at] / totals[has]
    return found, parts
