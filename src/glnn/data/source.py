"""Data that are read by rows, so that a process of a fit need not hold all features."""

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from glnn.data.arrays import symmetric_from_pairs
from glnn.data.node_data import NodeData


@runtime_checkable
class RowSource(Protocol):
    """Where a fit gets its rows from.

    ``labels``, ``node_ids``, ``class_names`` and the rest of what is small are there at once;
    features and graph come for some rows at a time. ``digest`` tells one source from another.
    """

    @property
    def name(self) -> str:
        """A short name for messages and results."""

    @property
    def n_nodes(self) -> int:
        """Number of rows."""

    @property
    def n_features(self) -> int:
        """Number of columns."""

    @property
    def labels(self) -> np.ndarray:
        """Class number of each node, -1 where it is unknown."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """One name for each class."""

    @property
    def node_ids(self) -> np.ndarray:
        """The nodes' ids, or their numbers."""

    @property
    def splits(self) -> Mapping[str, np.ndarray]:
        """The published split: node numbers under ``train``, ``val``, ``test``, or nothing."""

    @property
    def has_graph(self) -> bool:
        """Whether :meth:`graph_rows` returns something."""

    @property
    def digest(self) -> str:
        """A text that changes with the data."""

    @property
    def record(self) -> NodeData:
        """All there is to know but for the graph and the values of the features."""

    def features(self, rows: slice) -> sp.csr_matrix:
        """Return the features of some rows, float32."""

    def graph_rows(self, rows: slice) -> sp.csr_matrix | None:
        """Return some rows of the symmetric graph, rows x nodes, or ``None`` without one."""


class RecordSource:
    """A record in memory, read by rows.

    Parameters
    ----------
    data
        The record.
    """

    def __init__(self, data: NodeData) -> None:
        self.data = data
        self.name, self.class_names = data.name, data.class_names
        self.n_nodes, self.n_features = data.n_nodes, data.n_features
        self.labels, self.node_ids = data.labels, data.node_ids
        self.splits = data.splits
        self.has_graph = data.graph is not None

    @property
    def record(self) -> NodeData:
        """The record without its graph and the values of its features."""
        return self.data.replace(features=no_values(self.n_nodes, self.n_features), graph=None)

    @property
    def digest(self) -> str:
        """SHA-256 of the arrays."""
        found = hashlib.sha256(repr(self.class_names).encode())
        for matrix in (self.data.features, self.data.graph):
            if matrix is not None:
                for part in (matrix.indptr, matrix.indices, matrix.data):
                    found.update(part.tobytes())
        found.update(self.labels.tobytes())
        return found.hexdigest()

    def features(self, rows: slice) -> sp.csr_matrix:
        """Return the features of some rows."""
        return self.data.features[rows]

    def graph_rows(self, rows: slice) -> sp.csr_matrix | None:
        """Return some rows of the graph, or ``None`` without one."""
        return None if self.data.graph is None else self.data.graph[rows]


def no_values(n_nodes: int, n_features: int) -> sp.csr_matrix:
    """Return features of which nothing is stored, in place of those that are elsewhere."""
    return sp.csr_matrix((n_nodes, n_features), dtype=np.float32)


def bounds(rows: slice, n_nodes: int) -> tuple[int, int]:
    """Return the first row of a slice without steps, and the one after its last.

    Examples
    --------
    >>> bounds(slice(2, None), 5), bounds(slice(4, 9), 5)
    ((2, 5), (4, 5))
    """
    start, stop, _ = rows.indices(n_nodes)
    return start, max(start, stop)


def rows_of_pairs(pairs: Any, weights: Any, rows: slice, n_nodes: int) -> sp.csr_matrix:
    """Return some rows of the undirected graph of a list of pairs.

    The entries are those of :func:`glnn.data.arrays.symmetric_from_pairs`, restricted to the
    pairs that touch the rows.

    Parameters
    ----------
    pairs
        Two arrays of node numbers.
    weights
        One weight for each pair, or ``None``.
    rows
        The rows wanted.
    n_nodes
        Number of nodes.
    """
    start, stop = bounds(rows, n_nodes)
    touches = np.zeros(len(pairs[0]), dtype=bool)
    for ends in pairs:
        touches |= (ends >= start) & (ends < stop)
    kept = None if weights is None else weights[touches]
    part = symmetric_from_pairs(pairs[0][touches], pairs[1][touches], n_nodes, kept)
    return part[start:stop]
