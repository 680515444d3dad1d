"""A graph where none is given: each node linked to its nearest neighbours by cosine."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import config_context
from sklearn.neighbors import NearestNeighbors


def cosine_graph(features: Any, n_neighbors: int) -> sp.csr_matrix:
    """Link each node with the ``n_neighbors`` nodes of highest cosine; symmetric, weights 1.

    The search is exact and works through blocks of rows, so no n x n matrix is stored. A node
    without features has no direction, so it gets no links; neither do nodes at right angles.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.0, 0.0]])
    >>> cosine_graph(x, 1).toarray()
    array([[0., 1., 0., 0.],
           [1., 0., 1., 0.],
           [0., 1., 0., 0.],
           [0., 0., 0., 0.]])
    """
    n_nodes = features.shape[0]
    wanted = min(n_neighbors, n_nodes - 1)
    if wanted == 0:
        return sp.csr_matrix((n_nodes, n_nodes))
    search = NearestNeighbors(n_neighbors=wanted, metric="cosine", algorithm="brute")
    with config_context(working_memory=128):  # MB of distances at a time
        distances, neighbors = search.fit(features).kneighbors()
    rows = np.repeat(np.arange(n_nodes), wanted)
    columns, near = neighbors.ravel(), distances.ravel() < 1 - 1e-12
    ones = np.ones(int(near.sum()))
    graph = sp.csr_matrix((ones, (rows[near], columns[near])), shape=(n_nodes, n_nodes))
    return sp.csr_matrix(graph.maximum(graph.T))
