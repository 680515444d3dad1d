"""Row sources: features and graph are read for a range of rows, so that no process needs all.

Uncompressed npz files and Parquet tables are read from disk; other formats are held in memory.
"""

import hashlib
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn.data.files import quote_path, wrap_parse_errors
from glnn.data.formats import is_edge_table, read_data
from glnn.data.node_data import (
    NodeData,
    canonicalize_csr,
    csr_from_arrays,
    empty_features,
    symmetric_from_pairs,
)
from glnn.data.npz import NpzFile, read_pairs, read_record, read_shape
from glnn.data.table_files import arrow_to_frame, find_edge_table, open_parquet
from glnn.data.table_text import DEFAULT_OPTIONS, TableOptions, parse_column_names
from glnn.data.tables import TableReport, build_table_data
from glnn.exceptions import DataFormatError


class RecordSource:
    """A record in memory, read by rows; sources of files hold it with empty features."""

    def __init__(self, data: NodeData, report: TableReport | None = None) -> None:
        self.data, self.report = data, report  # how a table's columns became features

    @cached_property
    def record(self) -> NodeData:
        """The record with empty features and without its graph."""
        return self.data.replace(features=empty_features(*self.data.features.shape), graph=None)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the data."""
        found = hashlib.sha256(repr(self.data.class_names).encode())
        for matrix in (self.data.features, self.data.graph):
            if matrix is not None:
                for part in (matrix.indptr, matrix.indices, matrix.data):
                    found.update(part.data)
        found.update(self.data.labels.data)
        return found.hexdigest()

    def features(self, rows: slice) -> sp.csr_matrix:
        """Return a copy of the features of some rows."""
        return self.data.features[rows].copy()

    def graph_rows(self, rows: slice) -> sp.csr_matrix | None:
        """Return some rows of the graph, or ``None`` without one."""
        return None if self.data.graph is None else self.data.graph[rows]


class NpzSource(RecordSource):
    """A data set in an npz file with uncompressed features, which are read by rows.

    Labels, ids, row starts and edges are read once; values and columns of the features are read
    for the requested rows.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with NpzFile(self.path) as file, wrap_parse_errors(self.path, "npz"):
            shape = read_shape(file)
            self._starts = file.read("features_indptr", kinds="iu", ndim=1).astype(np.int64)
            sizes = {file.headers[f"features_{part}"].shape for part in ("data", "indices")}
            grow = self._starts[0] == 0 and not (np.diff(self._starts) < 0).any()
            grow = grow and len(self._starts) == shape[0] + 1
            if not grow or sizes != {(int(self._starts[-1]),)}:
                raise DataFormatError("row starts of a CSR matrix must grow from 0 to its size.")
            super().__init__(read_record(file, empty_features(*shape)))
            self._pairs, self._weights = read_pairs(file)
            self.digest = file.digest

    def features(self, rows: slice) -> sp.csr_matrix:
        """Read the features of some rows."""
        start, stop, _ = rows.indices(self.record.n_nodes)
        first, last = int(self._starts[start]), int(self._starts[stop])
        with NpzFile(self.path) as file:
            values = file.read_slice("features_data", first, last, kinds="fiub")
            columns = file.read_slice("features_indices", first, last, kinds="iu")
        starts = self._starts[start : stop + 1] - first
        matrix = csr_from_arrays(values, columns, starts, (stop - start, self.record.n_features))
        return canonicalize_csr("features", matrix)

    def graph_rows(self, rows: slice) -> sp.csr_matrix | None:
        """Return some rows of the graph, or ``None`` without one; pairs elsewhere are not used."""
        if self._pairs is None:
            return None
        n_nodes, pairs, weights = self.record.n_nodes, self._pairs, self._weights
        start, stop, _ = rows.indices(n_nodes)
        touches = ((pairs >= start) & (pairs < stop)).any(axis=0)
        kept = None if weights is None else weights[touches]
        source, target = pairs[:, touches]
        return symmetric_from_pairs(source, target, n_nodes, kept)[start:stop]


class ParquetSource(RecordSource):
    """A table in a Parquet file, whose features are read by rows.

    ``labels_path`` is a table of ids and labels and ``graph_path`` an edge list between ids; both
    are read once. Categories, medians and first dates are found by reading the columns one by one.
    """

    def __init__(
        self,
        path: str | Path,
        labels_path: str | Path | None = None,
        graph_path: str | Path | None = None,
        options: TableOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.path = Path(path)
        self._file = open_parquet(self.path)
        names = parse_column_names(self.path, self._file.schema_arrow.names)
        n_rows = int(self._file.metadata.num_rows)
        columns = names, self._read_column, n_rows
        data, report = build_table_data(self.path, labels_path, graph_path, *columns, options)
        super().__init__(data, report)
        self._encoder = report.encoder

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def features(self, rows: slice) -> sp.csr_matrix:
        """Read the features of some rows; only row groups with these rows are read, one by one."""
        start, stop, _ = rows.indices(self.record.n_nodes)
        begin, blocks = 0, [empty_features(0, self.record.n_features)]
        for group in range(self._file.metadata.num_row_groups):
            end = begin + self._file.metadata.row_group(group).num_rows
            low, high = max(start, begin), min(stop, end)
            if low < high:
                with wrap_parse_errors(self.path, "Parquet"):
                    names = list(self._encoder.names)
                    frame = arrow_to_frame(self._file.read_row_group(group, names))
                part = frame.iloc[low - begin : high - begin]
                blocks.append(self._encoder.transform(part, quote_path(self.path), low))
            begin = end
        return sp.csr_matrix(sp.vstack(blocks, format="csr"))

    def _read_column(self, name: str) -> pd.Series:
        with wrap_parse_errors(self.path, "Parquet"):
            return arrow_to_frame(self._file.read(columns=[name]))[name]


def open_source(path: str | Path, options: TableOptions = DEFAULT_OPTIONS) -> RecordSource:
    """Return the row source of a file of any format of :func:`glnn.data.read_data`."""
    found = open_rows(Path(path), options, find_edge_table(Path(path)))
    return RecordSource(read_data(path, options=options)) if found is None else found


def open_rows(
    path: Path, options: TableOptions, graph_path: Path | None, labels_path: Path | None = None
) -> RecordSource | None:
    """Return the source of a file that can be read by rows; ``None`` for any other.

    These are Parquet tables, to which edges and labels of other files belong, and npz files with
    uncompressed features.
    """
    suffix = path.suffix.lower()
    if suffix == ".parquet" and not is_edge_table(path):
        return ParquetSource(path, labels_path, graph_path, options)
    if suffix == ".npz" and path.is_file():
        with NpzFile(path) as file:
            parts = ("features_data", "features_indices")
            is_stored = all(file.can_read_slices(part) for part in parts)
        return NpzSource(path) if is_stored else None
    return None
