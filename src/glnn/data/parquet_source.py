"""A Parquet table read by rows: columns are looked at one by one, features batch by batch."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn.data.arrays import ids_from_text
from glnn.data.cells import as_text, stripped
from glnn.data.columns import plan_columns
from glnn.data.edges import EdgeReport, read_edges
from glnn.data.encoder import TableEncoder
from glnn.data.files import shown_path
from glnn.data.node_data import NodeData
from glnn.data.options import DEFAULT, TableOptions
from glnn.data.parquet import guarded, open_parquet, parquet_frame
from glnn.data.source import bounds, no_values
from glnn.data.table_text import column_names
from glnn.data.tables import TableReport, encode_labels, index_of, splits_from, table_provenance

_BATCH_ROWS = 16_384


class ParquetSource:
    """A table in a Parquet file, whose features are read by rows.

    Parameters
    ----------
    path
        The file.
    graph_path
        An edge list between ids, read at once.
    options
        How to use the columns; categories, medians and first dates are found by reading one
        column after the other.
    """

    def __init__(
        self,
        path: str | Path,
        graph_path: str | Path | None = None,
        options: TableOptions = DEFAULT,
    ) -> None:
        self.path, self.name = Path(path), Path(path).stem
        self._where, self._file = shown_path(self.path), open_parquet(self.path)
        names = column_names(self.path, self._file.schema_arrow.names)
        plan = plan_columns(self._where, names, self._column, options, own_labels=True)
        self.encoder = TableEncoder.fit(self._where, plan.features, self._column, options)
        self.n_nodes = int(self._file.metadata.num_rows)
        self.n_features = len(self.encoder.feature_names)
        texts = [""] * self.n_nodes if plan.label is None else stripped(self._column(plan.label))
        self.labels, self.class_names = encode_labels(texts)
        split = None if plan.split is None else stripped(self._column(plan.split))
        self.splits = {} if split is None else splits_from(split)
        ids = None if plan.id is None else as_text(self._column(plan.id))
        self.node_ids = np.arange(self.n_nodes) if ids is None else ids_from_text(ids)
        index = index_of([str(node) for node in self.node_ids] if ids is None else ids, self._where)
        self._graph: sp.csr_matrix | None = None
        edges: EdgeReport | None = None
        if graph_path is not None:
            self._graph, edges = read_edges(graph_path, index, on_unknown=options.on_unknown)
        self.report = TableReport(self.encoder, plan, edges=edges)
        self.notes = self.report.lines()
        self.record = NodeData(
            features=no_values(self.n_nodes, self.n_features),
            labels=self.labels,
            class_names=self.class_names,
            splits=self.splits,
            ids=None if ids is None else self.node_ids,
            name=self.name,
            provenance=table_provenance(self.path, self.report),
            feature_names=self.encoder.feature_names,
        )

    @property
    def has_graph(self) -> bool:
        """Whether an edge list was given."""
        return self._graph is not None

    @property
    def digest(self) -> str:
        """SHA-256 of the file, read in pieces."""
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def features(self, rows: slice) -> sp.csr_matrix:
        """Return the features of some rows; groups of rows that hold none of them are not read."""
        start, stop = bounds(rows, self.n_nodes)
        parts = self._read(start, stop)
        blocks = [self.encoder.transform(frame, self._where, first) for first, frame in parts]
        if not blocks:
            return sp.csr_matrix((0, self.n_features), dtype=np.float32)
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
                    yield low, parquet_frame(batch.slice(low - place, high - low))
                place += batch.num_rows

    def _batches(self, group: int) -> Iterator[Any]:
        batches = self._file.iter_batches(
            batch_size=_BATCH_ROWS, row_groups=[group], columns=list(self.encoder.names)
        )
        while (batch := guarded(self.path, lambda: next(batches, None))) is not None:
            yield batch
