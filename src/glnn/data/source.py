"""Data that are read by rows, so that a process of a fit need not hold all features."""

import hashlib
from typing import Any, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp

from glnn.data.arrays import no_values, symmetric_from_pairs
from glnn.data.node_data import NodeData
from glnn.data.tables import TableReport


@runtime_checkable
class RowSource(Protocol):
    """Where a fit gets its rows from.

    Labels, ids, names and the rest of what is small are there at once, in ``record``; features
    and graph come for some rows at a time.
    """

    @property
    def record(self) -> NodeData:
        """All there is to know but for the graph and the values of the features."""

    @property
    def report(self) -> TableReport | None:
        """How a table's columns became features; ``None`` for other formats."""

    @property
    def digest(self) -> str:
        """A text that changes with the data."""

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
    report
        How a table became this record.
    """

    def __init__(self, data: NodeData, report: TableReport | None = None) -> None:
        self.data, self.report = data, report

    @property
    def record(self) -> NodeData:
        """The record without its graph and the values of its features."""
        return self.data.replace(features=no_values(*self.data.features.shape), graph=None)

    @property
    def digest(self) -> str:
        """SHA-256 of the arrays."""
        found = hashlib.sha256(repr(self.data.class_names).encode())
        for matrix in (self.data.features, self.data.graph):
            if matrix is not None:
                for part in (matrix.indptr, matrix.indices, matrix.data):
                    found.update(part.tobytes())
        found.update(self.data.labels.tobytes())
        return found.hexdigest()

    def features(self, rows: slice) -> sp.csr_matrix:
        """Return a copy of the features of some rows."""
        return self.data.features[rows].copy()

    def graph_rows(self, rows: slice) -> sp.csr_matrix | None:
        """Return some rows of the graph, or ``None`` without one."""
        return None if self.data.graph is None else self.data.graph[rows]


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
