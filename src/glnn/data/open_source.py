"""The source of a file: by rows where its format allows, else from memory."""

from pathlib import Path

from glnn.data.formats import is_edge_table, read_data
from glnn.data.npz_source import NpzSource, can_be_read_by_rows
from glnn.data.options import DEFAULT, TableOptions
from glnn.data.parquet_source import ParquetSource
from glnn.data.source import RecordSource, RowSource
from glnn.data.table_out import edges_beside


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
