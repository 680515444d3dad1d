"""Conversion of graphs (scipy, arrays, edge lists, networkx) to a checked adjacency matrix."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_array
from glnn.distributed import Partition
from glnn.exceptions import GraphWarning, InputError


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


def as_adjacency_rows(block: Any, layout: Partition) -> sp.csr_matrix:
    """Return :func:`as_adjacency` of a graph of which each process gives its rows."""
    if not layout.is_split:
        return as_adjacency(block, layout.n_nodes)
    shape = (layout.n_rows, layout.n_nodes)
    if not sp.issparse(block) or block.shape != shape:
        raise InputError(
            f"graph over several processes must be a sparse matrix of the {shape[0]} rows of this "
            f"one and {shape[1]} columns, got {type(block).__name__} of shape {np.shape(block)}."
        )
    matrix = _check_weights(sp.csr_matrix(block))
    matrix = sp.csr_matrix(matrix.maximum(layout.transpose(matrix)))
    loops = sp.diags(matrix.diagonal(layout.start), layout.start, shape=shape)
    matrix = sp.csr_matrix(matrix - loops)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


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
    n_repeated = source.size - np.unique(source * n_nodes + target).size
    if n_repeated:
        _warn(f"graph lists {n_repeated} edges more than once; each counts once.")
    loops = source == target
    if loops.any():
        _warn(f"graph has {int(loops.sum())} self loops; they are dropped.")
    source, target = source[~loops], target[~loops]
    ones = np.ones(2 * source.size)
    both = (np.concatenate([source, target]), np.concatenate([target, source]))
    matrix = sp.csr_matrix((ones, both), shape=(n_nodes, n_nodes))
    matrix.data[:] = 1.0
    matrix.sort_indices()
    return matrix


def _from_matrix(matrix: sp.csr_matrix, n_nodes: int) -> sp.csr_matrix:
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"graph must be square, got shape {matrix.shape}. "
            "An edge list must have two rows or two columns."
        )
    if matrix.shape[0] != n_nodes:
        raise InputError(
            f"graph must have one row for each of the {n_nodes} nodes, got {matrix.shape[0]}."
        )
    matrix = _check_weights(matrix)
    n_asymmetric = _count_asymmetric(matrix)
    if n_asymmetric:
        _warn(
            f"graph is not symmetric in {n_asymmetric} entries; "
            "the larger of a_ij and a_ji is used for both."
        )
        matrix = sp.csr_matrix(matrix.maximum(matrix.T))
    n_loops = int(np.count_nonzero(matrix.diagonal()))
    if n_loops:
        _warn(f"graph has {n_loops} self loops; they are dropped.")
        matrix = sp.csr_matrix(matrix - sp.diags(matrix.diagonal()))
        matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _check_weights(matrix: sp.csr_matrix) -> sp.csr_matrix:
    """Return the matrix in float64 without stored zeros; weights must be finite and at least 0."""
    if matrix.dtype.kind not in "fiub":
        raise InputError(f"graph must hold real weights, got dtype {matrix.dtype}.")
    matrix = matrix.astype(np.float64)
    matrix.sum_duplicates()
    if not np.isfinite(matrix.data).all():
        raise InputError("graph must hold finite weights, got NaN or infinity.")
    if matrix.nnz and matrix.data.min() < 0:
        raise InputError(
            f"graph must have weights of at least 0, got {matrix.data.min():g}. "
            "Drop negative edges or take their absolute value."
        )
    matrix.eliminate_zeros()
    return matrix


_BLOCK = 2**16  # entries that are hashed together, so that they stay in the processor's cache


def _count_asymmetric(matrix: sp.csr_matrix) -> int:
    """Count the entries that differ from those of the transpose; rows must be sorted.

    The triangles are compared by a hash first: a transposed copy of a large graph takes seconds.
    """
    if _triangle_difference(matrix) == 0:
        return 0
    mirrored = sp.csr_matrix(matrix.T)  # its rows are sorted
    if np.array_equal(matrix.indptr, mirrored.indptr) and np.array_equal(
        matrix.indices, mirrored.indices
    ):
        return int(np.count_nonzero(matrix.data != mirrored.data))
    return int((matrix != mirrored).nnz)


def _triangle_difference(matrix: sp.csr_matrix) -> int:
    """Return the sum of 64-bit hashes of the upper triangle's entries less the lower one's."""
    n_nodes, total = np.uint64(matrix.shape[0]), np.uint64(0)
    bits = matrix.data.view(np.uint64)
    for first in range(0, matrix.nnz, _BLOCK):
        stop = min(first + _BLOCK, matrix.nnz)
        low, high = np.searchsorted(matrix.indptr, [first, stop - 1], side="right") - 1
        ends = np.clip(matrix.indptr[low : high + 2], first, stop)
        rows = np.repeat(np.arange(low, high + 1, dtype=np.uint64), np.diff(ends))
        columns = matrix.indices[first:stop].astype(np.uint64)
        hashed = np.minimum(rows, columns) * n_nodes + np.maximum(rows, columns)
        for part in (np.uint64(0), bits[first:stop]):  # splitmix64 of the pair, then of the weight
            hashed += part
            hashed ^= hashed >> np.uint64(30)
            hashed *= np.uint64(0xBF58476D1CE4E5B9)
            hashed ^= hashed >> np.uint64(27)
            hashed *= np.uint64(0x94D049BB133111EB)
            hashed ^= hashed >> np.uint64(31)
        with np.errstate(over="ignore"):
            total += hashed[rows < columns].sum(dtype=np.uint64)
            total -= hashed[rows > columns].sum(dtype=np.uint64)
    return int(total)


def _from_networkx(graph: Any, n_nodes: int) -> sp.csr_matrix:
    import networkx as nx

    if graph.number_of_nodes() != n_nodes:
        raise InputError(
            f"graph must have one node for each of the {n_nodes} rows of the features, "
            f"got {graph.number_of_nodes()}."
        )
    if set(graph.nodes) != set(range(n_nodes)):
        unknown = next(node for node in graph.nodes if node not in range(n_nodes))
        raise InputError(
            f"graph must have the nodes 0 to {n_nodes - 1}, as its rows have no names; got "
            f"{unknown!r}. Fit a DataFrame whose index names the rows, or relabel the nodes."
        )
    try:
        matrix = nx.to_scipy_sparse_array(graph, nodelist=range(n_nodes))
    except (TypeError, ValueError):
        raise InputError("graph must have edge weights that are numbers.") from None
    return _from_matrix(sp.csr_matrix(matrix), n_nodes)


def _warn(message: str) -> None:
    warnings.warn(message, GraphWarning, stacklevel=4)
