"""The graph of each round as a small picture ordered by class, and what changed between rounds."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from glnn.report.page.links import links_of
from glnn.report.page.pack import scaled_to

MOST_CELLS = 180
"""Rows and columns of the picture at most; larger graphs are summed in blocks."""


@dataclass(frozen=True, eq=False)
class MatrixPictures:
    """Pictures of one size, rounds x cells x cells, 0 to 255, and where classes begin."""

    values: np.ndarray
    names: tuple[str, ...]
    starts: Int[np.ndarray, "c"]


def class_order(classes: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """Return the nodes sorted by class, unknown ones last."""
    known = np.where(classes < 0, classes.max(initial=0) + 1, classes)
    return np.argsort(known, kind="stable")


def block_means(
    graph: sp.csr_matrix, order: Int[np.ndarray, "n"], n_cells: int
) -> Float[np.ndarray, "k k"]:
    """Return the mean weight of the pairs in each block of the reordered matrix.

    Examples
    --------
    >>> pair = sp.csr_matrix(np.array([[0, 1.0], [1.0, 0]]))
    >>> block_means(pair, np.array([0, 1]), 1)
    array([[0.5]])
    """
    n_nodes = graph.shape[0]
    cell = np.empty(n_nodes, np.int64)
    cell[order] = np.arange(n_nodes) * n_cells // max(n_nodes, 1)
    entries = graph.tocoo()
    keys = cell[entries.row] * n_cells + cell[entries.col]
    sums = np.bincount(keys, entries.data, minlength=n_cells * n_cells)
    sizes = np.bincount(cell, minlength=n_cells).astype(float)
    return np.asarray(sums.reshape(n_cells, n_cells) / np.outer(sizes, sizes))


def matrix_pictures(
    graphs: Sequence[tuple[str, sp.csr_matrix]], classes: Int[np.ndarray, "n"]
) -> MatrixPictures:
    """Return the graphs as pictures with a common scale, the square root of the mean weight."""
    n_nodes = graphs[0][1].shape[0]
    n_cells, order = min(n_nodes, MOST_CELLS), class_order(classes)
    sums = np.stack([block_means(graph, order, n_cells) for _, graph in graphs])
    roots = np.sqrt(np.maximum(sums, 0.0))
    top = float(np.quantile(roots[roots > 0], 0.99)) if (roots > 0).any() else 1.0
    sorted_classes = classes[order]
    starts = np.flatnonzero(np.r_[True, sorted_classes[1:] != sorted_classes[:-1]])
    return MatrixPictures(
        scaled_to(roots, np.uint8, top),
        tuple(name for name, _ in graphs),
        (starts * n_cells) // max(n_nodes, 1),
    )


def changes(graphs: Sequence[sp.csr_matrix]) -> list[tuple[int, int]]:
    """Return how many links each graph adds to and removes from the one before it.

    Examples
    --------
    >>> one, two = (sp.csr_matrix(np.array(m)) for m in ([[0, 1.0], [1.0, 0]], [[0, 0.0], [0, 0]]))
    >>> changes([one, two])
    [(0, 1)]
    """
    found = []
    for before, after in pairwise(graphs):
        fate = np.bincount(links_of(after, before).fate, minlength=3)
        found.append((int(fate[1]), int(fate[2])))
    return found
