"""Data that are read by rows, so that a process of a fit need not hold all features."""

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn.data.files import parsing, shown_path
from glnn.data.formats import is_edge_table, read_data
from glnn.data.node_data import (
    NodeData,
    canonical_csr,
    checked_csr,
    no_values,
    symmetric_from_pairs,
)
from glnn.data.npz import NpzFile, declared_shape, record_of, weighted_pairs
from glnn.data.table_files import edges_beside, guarded, open_parquet, parquet_frame
from glnn.data.table_text import DEFAULT, TableOptions, column_names
from glnn.data.tables import TableFiles, TableReport, table_record
from glnn.exceptions import DataFormatError

# --- source: Data that are read by rows, so that a process of a fit need not hold all features


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

    The entries are those of :func:`glnn.data.node_data.symmetric_from_pairs`, restricted to the
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


# --- npz_source: An npz file read by rows: arrays stored without compression are read where they l


def can_be_read_by_rows(path: Path) -> bool:
    """Whether the features of an npz file are stored without compression, as large ones are."""
    with NpzFile(path) as file:
        return all(file.can_read_slices(f"features_{part}") for part in ("data", "indices"))


class NpzSource:
    """A data set in an npz file, whose features are read by rows.

    Parameters
    ----------
    path
        A file of which :func:`can_be_read_by_rows` holds. Labels, ids, the starts of the rows and
        the list of edges are read at once; values and columns of the features are read for the
        rows that are asked for.
    """

    report = None
    """There is no table."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not can_be_read_by_rows(self.path):
            raise DataFormatError(
                f"{shown_path(self.path)} must store its features without compression to be read "
                "by rows, got them compressed."
            )
        with NpzFile(self.path) as file, parsing(self.path, "npz"):
            shape = declared_shape(file)
            self._starts = file.read("features_indptr", kinds="iu", ndim=1).astype(np.int64)
            self.record = record_of(file, no_values(*shape))
            self._pairs, self._weights = weighted_pairs(file)
            self.digest = file.digest
            sizes = {file.headers[f"features_{part}"].shape for part in ("data", "indices")}
        grow = self._starts[0] == 0 and not (np.diff(self._starts) < 0).any()
        if not grow or sizes != {(int(self._starts[-1]),)}:
            raise DataFormatError("row starts of a CSR matrix must grow from 0 to its size.")

    def features(self, rows: slice) -> sp.csr_matrix:
        """Return the features of some rows; nothing else of them is read."""
        start, stop = bounds(rows, self.record.n_nodes)
        first, last = int(self._starts[start]), int(self._starts[stop])
        with NpzFile(self.path) as file, parsing(self.path, "npz"):
            values = file.read_slice("features_data", first, last, kinds="fiub")
            columns = file.read_slice("features_indices", first, last, kinds="iu")
        starts = self._starts[start : stop + 1] - first
        matrix = checked_csr(values, columns, starts, (stop - start, self.record.n_features))
        return canonical_csr("features", matrix)

    def graph_rows(self, rows: slice) -> sp.csr_matrix | None:
        """Return some rows of the graph, or ``None`` without one."""
        if self._pairs is None:
            return None
        return rows_of_pairs(self._pairs, self._weights, rows, self.record.n_nodes)


# --- parquet_source: A Parquet table read by rows: columns are looked at one by one, features batc

_BATCH_ROWS = 16_384


class ParquetSource:
    """A table in a Parquet file, whose features are read by rows.

    Parameters
    ----------
    path
        The file.
    labels_path, graph_path
        A table of ids and labels, and an edge list between ids, read at once.
    options
        How to use the columns; categories, medians and first dates are found by reading one
        column after the other.
    """

    def __init__(
        self,
        path: str | Path,
        labels_path: str | Path | None = None,
        graph_path: str | Path | None = None,
        options: TableOptions = DEFAULT,
    ) -> None:
        files = TableFiles.of(path, labels_path, graph_path)
        self.path, self._where = files.features, shown_path(files.features)
        self._file = open_parquet(self.path)
        names = column_names(self.path, self._file.schema_arrow.names)
        n_rows = int(self._file.metadata.num_rows)
        record, self.report = table_record(files, names, self._column, n_rows, options)
        self.record, self._graph = record.replace(graph=None), record.graph

    @property
    def digest(self) -> str:
        """SHA-256 of the file, read in pieces."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def features(self, rows: slice) -> sp.csr_matrix:
        """Return the features of some rows; groups of rows that hold none of them are not read."""
        start, stop = bounds(rows, self.record.n_nodes)
        encode = self.report.encoder.transform
        blocks = [encode(frame, self._where, first) for first, frame in self._read(start, stop)]
        if not blocks:
            return no_values(0, self.record.n_features)
        return sp.csr_matrix(sp.vstack(blocks, format="csr"))

    def graph_rows(self, rows: slice) -> sp.csr_matrix | None:
        """Return some rows of the graph, or ``None`` without one."""
        return None if self._graph is None else self._graph[rows]

    def _column(self, name: str) -> pd.Series:
        table = guarded(self.path, lambda: self._file.read(columns=[name]))
        return guarded(self.path, lambda: parquet_frame(table))[name]

    def _read(self, start: int, stop: int) -> Iterator[tuple[int, pd.DataFrame]]:
        """Yield the wanted rows batch by batch, with the number of each batch's first row."""
        begin, groups = 0, []
        for group in range(self._file.metadata.num_row_groups):
            end = begin + self._file.metadata.row_group(group).num_rows
            if begin < stop and end > start:
                groups.append((group, begin))
            begin = end
        for group, place in groups:
            for batch in self._batches(group):
                low, high = max(start, place), min(stop, place + batch.num_rows)
                if low < high:
                    part = batch.slice(low - place, high - low)
                    yield low, guarded(self.path, partial(parquet_frame, part))
                place += batch.num_rows

    def _batches(self, group: int) -> Iterator[Any]:
        batches = self._file.iter_batches(
            batch_size=_BATCH_ROWS, row_groups=[group], columns=list(self.report.encoder.names)
        )
        while (batch := guarded(self.path, lambda: next(batches, None))) is not None:
            yield batch


# --- open_source: The source of a file: by rows where its format allows, else from memory


def open_source(
    path: str | Path,
    options: TableOptions = DEFAULT,
    graph_path: Path | None = None,
    labels_path: Path | None = None,
) -> RowSource:
    """Return a source for the rows of a file.

    Parameters
    ----------
    path
        A Parquet table, or an npz file with large features, is read by rows; any other format
        that :func:`glnn.data.read_data` knows is read whole.
    options
        How to use the columns of a table.
    graph_path, labels_path
        An edge list for a Parquet table, by default the one beside it, and a table of labels.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix == ".parquet" and not is_edge_table(path):
        beside = edges_beside(path)
        graph = graph_path or (beside if beside.is_file() else None)
        return ParquetSource(path, labels_path, graph, options)
    if suffix == ".npz" and path.is_file() and can_be_read_by_rows(path):
        return NpzSource(path)
    return RecordSource(read_data(path, options=options))
