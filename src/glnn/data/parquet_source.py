"""A Parquet table read by rows: columns are looked at one by one, features batch by batch."""

import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import scipy.sparse as sp

from glnn.data.arrays import no_values
from glnn.data.files import shown_path
from glnn.data.options import DEFAULT, TableOptions
from glnn.data.parquet import guarded, open_parquet, parquet_frame
from glnn.data.source import bounds
from glnn.data.table_text import column_names
from glnn.data.tables import TableFiles, table_record

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
