"""The prior graph G, made from a given graph; the learned graph is kept close to it.

Functions that take ``degrees`` and ``first_row`` work on some rows of a graph: they need the
degrees of all nodes, and the number of the first row.
"""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_choice, check_weights
from glnn.exceptions import InputError

PriorKind = Literal["binary", "symmetric", "renormalized"]
PRIORS: tuple[PriorKind, ...] = get_args(PriorKind)


def normalize_adjacency(
    adjacency: sp.csr_matrix, degrees: np.ndarray | None = None, first_row: int = 0
) -> sp.csr_matrix:
    r"""Return :math:`D^{-1/2} A D^{-1/2}`; rows of isolated nodes stay empty."""
    if degrees is None:
        degrees = np.asarray(adjacency.sum(1), dtype=np.float64).ravel()
    root = inverse_sqrt(degrees)
    own = root[first_row : first_row + adjacency.shape[0]]
    result = sp.csr_matrix(adjacency, dtype=np.float64, copy=True)
    result.sum_duplicates()
    result.data *= np.repeat(own, np.diff(result.indptr))
    result.data *= root[result.indices]
    result.eliminate_zeros()
    return result


def renormalized(
    adjacency: sp.csr_matrix, degrees: np.ndarray | None = None, first_row: int = 0
) -> sp.csr_matrix:
    r"""Return :math:`\tilde D^{-1/2} (A + I) \tilde D^{-1/2}`, the propagation matrix of a GCN."""
    looped = sp.csr_matrix(adjacency + sp.eye(*adjacency.shape, k=first_row, format="csr"))
    return normalize_adjacency(looped, None if degrees is None else degrees + 1, first_row)


def inverse_sqrt(degree: np.ndarray) -> np.ndarray:
    """Return :math:`d^{-1/2}` of each degree, 0 where it is 0."""
    root = np.zeros_like(degree)
    root[degree > 0] = degree[degree > 0] ** -0.5
    return root


def prior_graph(
    adjacency: sp.csr_matrix,
    kind: PriorKind = "renormalized",
    degrees: np.ndarray | None = None,
    first_row: int = 0,
) -> sp.csr_matrix:
    """Return the prior graph of the named kind, symmetric CSR in float64.

    ``binary``: all weights are one, as in the paper's ground-truth matrix. ``symmetric``:
    :func:`normalize_adjacency`.

    Examples
    --------
    >>> prior_graph(sp.csr_matrix(np.array([[0.0, 3.0], [3.0, 0.0]])), "binary").toarray()
    array([[0., 1.],
           [1., 0.]])
    """
    check_choice("prior", kind, PRIORS)
    if kind == "binary":
        result = sp.csr_matrix(adjacency, dtype=np.float64, copy=True)
        result.data[:] = 1.0
    else:
        normalize = renormalized if kind == "renormalized" else normalize_adjacency
        result = normalize(sp.csr_matrix(adjacency), degrees, first_row)
    result.sort_indices()
    return result


@dataclass(frozen=True, eq=False)
class PriorGraph:
    r"""The prior graph of a given graph, and its row and loop for a new node with links `w_j`.

    ==============  =======================================  =================
    kind            :math:`g_j`                              loop
    ==============  =======================================  =================
    binary          1 where :math:`w_j > 0`                  0
    symmetric       :math:`w_j/\sqrt{d\,(d_j+w_j)}`          0
    renormalized    :math:`w_j/\sqrt{(d+1)(d_j+1+w_j)}`      :math:`1/(d+1)`
    ==============  =======================================  =================

    with :math:`d = \sum_j w_j` and :math:`d_j` the given graph's degrees. It is the row in the
    prior graph of the given graph with the new node added.
    """

    kind: PriorKind
    degrees: np.ndarray  # row sums of the whole given graph
    prior: sp.csr_matrix  # the rows of :func:`prior_graph` that are here

    def rows(self, links: Any, n_new: int) -> tuple[sp.csr_matrix, np.ndarray]:
        """Return the rows (CSR, new x N) and the loops."""
        rows = _check_links(links, n_new, len(self.degrees))
        if self.kind == "binary":
            rows.data[:] = 1.0
            return rows, np.zeros(n_new)
        own = 0.0 if self.kind == "symmetric" else 1.0
        degree = np.asarray(rows.sum(1)).ravel() + own
        new, old = np.repeat(degree, np.diff(rows.indptr)), self.degrees[rows.indices] + own
        rows.data /= np.sqrt(new * (old + rows.data))
        return rows, np.zeros(n_new) if self.kind == "symmetric" else 1.0 / degree


def _check_links(links: Any, n_new: int, n_nodes: int) -> sp.csr_matrix:
    """Return a checked copy of the links."""
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
    return check_weights("links", matrix)
