"""The prior graph's row for a node that was not there when the prior was made."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.exceptions import InputError
from glnn.graph.prior import PriorKind

_TELEPORT = 0.15  # of the prior graph ``pagerank``


@dataclass(frozen=True, eq=False)
class PriorRows:
    r"""Row and loop that a node with links :math:`w_j` would have in the prior graph.

    ==============  =======================================  =================
    kind            :math:`g_j`                              loop
    ==============  =======================================  =================
    binary          1 where :math:`w_j > 0`                  0
    symmetric       :math:`w_j/\sqrt{d\,(d_j+w_j)}`          0
    renormalized    :math:`w_j/\sqrt{(d+1)(d_j+1+w_j)}`      :math:`1/(d+1)`
    pagerank        one step over the renormalised links, then the prior graph
    ==============  =======================================  =================

    with :math:`d = \sum_j w_j` and :math:`d_j` the given graph's degrees. All but ``pagerank`` are
    the row of the prior graph of the enlarged given graph, exactly.

    Parameters
    ----------
    kind
        The kind of the prior graph.
    degrees
        Row sums of the given graph.
    prior
        The prior graph, needed for ``pagerank``.
    """

    kind: PriorKind
    degrees: np.ndarray
    prior: sp.csr_matrix

    def rows(self, links: Any, n_new: int) -> tuple[sp.csr_matrix, np.ndarray]:
        """Return the rows (CSR, new x N) and the loops."""
        links = _checked_links(links, n_new, len(self.degrees))
        if self.kind == "binary":
            return _like(links, np.ones_like(links.data)), np.zeros(n_new)
        own = 0.0 if self.kind == "symmetric" else 1.0
        degree = np.asarray(links.sum(1)).ravel() + own
        new, old = np.repeat(degree, np.diff(links.indptr)), self.degrees[links.indices] + own
        rows = _like(links, links.data / np.sqrt(new * (old + links.data)))
        if self.kind == "symmetric":
            return rows, np.zeros(n_new)
        if self.kind == "renormalized":
            return rows, 1.0 / degree
        spread = sp.csr_matrix((1.0 - _TELEPORT) * (rows @ self.prior))
        spread.sort_indices()
        return spread, _TELEPORT + (1.0 - _TELEPORT) / degree


def _checked_links(links: Any, n_new: int, n_nodes: int) -> sp.csr_matrix:
    if links is None:
        return sp.csr_matrix((n_new, n_nodes))
    try:
        matrix = sp.csr_matrix(links, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("links must be a matrix of numbers, new nodes x training nodes.") from None
    if matrix.shape != (n_new, n_nodes):
        raise InputError(
            f"links must have one row for each of the {n_new} new nodes and one column for each "
            f"of the {n_nodes} training nodes, got shape {matrix.shape}."
        )
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all() or matrix.data.min(initial=0.0) < 0:
        raise InputError("links must have finite weights of at least 0.")
    matrix.eliminate_zeros()
    return matrix


def _like(matrix: sp.csr_matrix, data: np.ndarray) -> sp.csr_matrix:
    return sp.csr_matrix((data, matrix.indices, matrix.indptr), shape=matrix.shape)
