"""How much of each given edge a learned graph has kept."""

import numpy as np
import scipy.sparse as sp

from glnn.graph.random_walk import without_loops


def edge_trust(learned: sp.csr_matrix, prior: sp.csr_matrix) -> sp.csr_matrix:
    r"""Return :math:`\min(1, a_{ij} / g_{ij})` at the edges of the prior graph, loops left out.

    An edge that was dropped is stored as a zero.

    Examples
    --------
    >>> prior = sp.csr_matrix(np.array([[0.5, 0.4, 0.2], [0.4, 0.5, 0.0], [0.2, 0.0, 0.5]]))
    >>> learned = sp.csr_matrix(np.array([[0.0, 0.6, 0.1], [0.6, 0.0, 0.3], [0.1, 0.3, 0.0]]))
    >>> edge_trust(learned, prior).toarray()
    array([[0. , 1. , 0.5],
           [1. , 0. , 0. ],
           [0.5, 0. , 0. ]])
    """
    edges = without_loops(prior)
    rows = np.repeat(np.arange(edges.shape[0]), np.diff(edges.indptr))
    kept = np.asarray(learned[rows, edges.indices]).ravel()
    shares = np.clip(kept / edges.data, 0.0, 1.0)
    places = (edges.indices.copy(), edges.indptr.copy())  # they may be the prior graph's own
    return sp.csr_matrix((shares, *places), shape=edges.shape)
