"""Conversion of graphs (scipy, arrays, edge lists, networkx) to a checked adjacency matrix."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_array, check_weights, is_symmetric
from glnn.exceptions import GraphWarning, InputError
from glnn.graph.operators import drop_loops


def as_adjacency(graph: Any, n_nodes: int) -> sp.csr_matrix:
    """Return a graph as a symmetric, non-negative scipy CSR matrix without loops.

    Parameters
    ----------
    graph
        A scipy sparse or dense ``n x n`` matrix, a ``2 x E`` or ``E x 2`` array of node numbers, or
        a networkx graph whose nodes are ``0..n-1``. Edges are undirected: an array may list one or
        both directions. A ``2 x 2`` array is a matrix if there are two nodes, otherwise it has one
        edge a row (see :func:`as_edge_index`). Graphs with named nodes are aligned by
        :func:`glnn.data.arguments.align_graph`.
    n_nodes
        Number of rows of the features.

    Notes
    -----
    Loops are dropped, repeated edges are merged, and an asymmetric matrix is replaced by the
    larger of ``a_ij`` and ``a_ji``; each of these issues one :class:`GraphWarning`.

    Examples
    --------
    >>> as_adjacency(np.array([[0, 1], [1, 2]]), 3).toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    if any(base.__module__.split(".")[0] == "networkx" for base in type(graph).__mro__):
        return _from_networkx(graph, n_nodes)
    if sp.issparse(graph) and graph.ndim == 2:
        return _from_matrix(sp.csr_matrix(graph), n_nodes)
    array = graph if sp.issparse(graph) else check_array("graph", graph)
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(
            "graph must be an n x n matrix, a 2 x E or E x 2 array of node numbers or a networkx "
            f"graph, got dtype {array.dtype} and shape {array.shape}."
        )
    if array.shape != (n_nodes, n_nodes) and 2 in array.shape:
        return _from_edges(array, n_nodes)
    return _from_matrix(sp.csr_matrix(array.astype(np.float64)), n_nodes)


def as_edge_index(name: str, edges: np.ndarray) -> np.ndarray:
    """Return a ``2 x E`` or ``E x 2`` array of edges as ``2 x E``.

    A ``2 x 2`` array could be either; it is read as one edge a row. If its columns are not the same
    edges as its rows, a :class:`GraphWarning` says how it was read.
    """
    if edges.shape != (2, 2):
        return edges if edges.shape[1] != 2 else edges.T
    (a, b), (c, d) = edges.tolist()
    if {frozenset((a, b)), frozenset((c, d))} != {frozenset((a, c)), frozenset((b, d))}:
        _warn(
            f"{name} of shape 2 x 2 is read as one edge a row, {a}-{b} and {c}-{d}. "
            "List both directions of every edge, or give a scipy sparse matrix."
        )
    return edges.T


def _from_edges(edges: np.ndarray, n_nodes: int) -> sp.csr_matrix:
    if edges.size and edges.dtype.kind not in "iu":
        raise InputError(
            f"graph as an array of edges must hold whole node numbers, got dtype {edges.dtype}. "
            "Weights belong in a scipy sparse matrix."
        )
    if edges.size and (edges.min() < 0 or edges.max() >= n_nodes):
        raise InputError(
            f"graph must hold node numbers in [0, {n_nodes}), got {edges.min()} to {edges.max()}. "
            "Number the nodes from 0, or give features for every node."
        )
    source, target = as_edge_index("graph", edges.astype(np.int64))
    matrix = sp.csr_matrix((np.ones(source.size), (source, target)), shape=(n_nodes, n_nodes))
    if matrix.nnz < source.size:
        _warn(f"graph lists {source.size - matrix.nnz} edges more than once; each counts once.")
    matrix.data[:] = 1.0
    return _without_loops(sp.csr_matrix(matrix.maximum(matrix.T)))


def _from_matrix(matrix: sp.csr_matrix, n_nodes: int) -> sp.csr_matrix:
    if matrix.shape != (n_nodes, n_nodes):
        raise InputError(
            f"graph must have one row for each of the {n_nodes} nodes and as many columns, got "
            f"shape {matrix.shape}. An edge list must have two rows or two columns."
        )
    matrix = check_weights("graph", matrix)
    if not is_symmetric(matrix):
        _warn(
            f"graph is not symmetric in {(matrix != matrix.T).nnz} entries; "
            "the larger of a_ij and a_ji is used for both."
        )
        matrix = sp.csr_matrix(matrix.maximum(matrix.T))
    return _without_loops(matrix)


def _without_loops(matrix: sp.csr_matrix) -> sp.csr_matrix:
    n_loops = int(np.count_nonzero(matrix.diagonal()))
    if n_loops:
        _warn(f"graph has {n_loops} self loops; they are dropped.", stacklevel=5)
    return drop_loops(matrix)


def _from_networkx(graph: Any, n_nodes: int) -> sp.csr_matrix:
    import networkx as nx

    if set(graph.nodes) != set(range(n_nodes)):
        unknown = next((node for node in graph.nodes if node not in range(n_nodes)), None)
        what = f"{graph.number_of_nodes()} nodes" if unknown is None else repr(unknown)
        raise InputError(
            f"graph must have the nodes 0 to {n_nodes - 1}, as its rows have no names; got "
            f"{what}. Fit a DataFrame whose index names the rows, or relabel the nodes."
        )
    try:
        matrix = nx.to_scipy_sparse_array(graph, nodelist=range(n_nodes))
    except (TypeError, ValueError):
        raise InputError("graph must have edge weights that are numbers.") from None
    return _from_matrix(sp.csr_matrix(matrix), n_nodes)


def _warn(message: str, stacklevel: int = 4) -> None:
    warnings.warn(message, GraphWarning, stacklevel)
