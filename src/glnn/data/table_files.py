"""Reading and writing tables as pandas frames: CSV, TSV, Excel and Parquet, by the suffix.

Workbooks and Parquet files are checked for sensible sizes before they are read.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from glnn._utils import import_optional
from glnn.data.files import atomic_write, check_file, one_line, quote, quote_path, wrap_parse_errors
from glnn.data.node_data import NodeData, upper_triangle
from glnn.data.npz import open_zip
from glnn.data.table_text import (
    DEFAULT_OPTIONS,
    TableOptions,
    parse_column_names,
    read_first_line,
    read_text_table,
)
from glnn.exceptions import DataFormatError, GlnnError, InputError

# Excel workbooks: zip archives of XML, which openpyxl parses with defusedxml

MAX_BYTES = 2**30


def read_workbook(path: Path, header: bool) -> pd.DataFrame:
    """Read the first sheet of a workbook as a table."""
    frame = read_sheet(path)
    if header and len(frame):
        first = [None if pd.isna(cell) else cell for cell in frame.iloc[0]]
        frame = frame.iloc[1:].set_axis(list(parse_column_names(path, first)), axis=1)
    else:
        frame.columns = frame.columns.map(str)
    return frame.reset_index(drop=True).infer_objects()


def read_sheet(path: Path, n_rows: int | None = None) -> pd.DataFrame:
    """Read the cells of the first sheet, or of its first rows."""
    check_file(path, max_bytes=MAX_BYTES)
    import_optional("openpyxl")
    with wrap_parse_errors(path, "Excel"):
        open_zip(path).close()  # refuses one that unpacks to too much
        cells = pd.read_excel(path, header=None, nrows=n_rows, keep_default_na=True)
    if not len(cells):
        raise DataFormatError(f"{quote_path(path)} must have a first sheet with rows, got none.")
    return cells


# Parquet files

SMALL_TABLE = 10_000_000  # so many cells are accepted for any size of the file
MAX_CELLS_PER_BYTE = 2_000

T = TypeVar("T")


def open_parquet(path: Path) -> Any:
    """Open a Parquet file with pyarrow and check its declared size and types; reads no cells."""
    check_file(path, max_bytes=2**35)
    return wrap_parquet_errors(path, lambda: _open_and_check_parquet(path))


def _open_and_check_parquet(path: Path) -> Any:
    file = import_optional("pyarrow.parquet").ParquetFile(path)
    n_rows, n_columns = file.metadata.num_rows, file.metadata.num_columns
    limit = max(SMALL_TABLE, MAX_CELLS_PER_BYTE * path.stat().st_size)
    if not file.schema_arrow.names or n_rows * n_columns > limit:
        raise DataFormatError(
            f"{quote_path(path)} must declare a sensible size, got {n_rows:,} rows and "
            f"{n_columns:,} columns. Nothing was read."
        )
    nested = import_optional("pyarrow.types").is_nested
    for field in file.schema_arrow:
        if nested(field.type):
            raise DataFormatError(
                f"column {quote(field.name)} of {quote_path(path)} must hold one value a cell, "
                f"got {one_line(field.type)}."
            )
    return file


def arrow_to_frame(table: Any) -> pd.DataFrame:
    """Convert a table of pyarrow to a frame; integers with missing cells stay integers.

    The cells are validated first, as text that is not UTF-8 would fail only later.
    """
    kinds = import_optional("pyarrow")
    table.validate(full=True)
    whole = {
        getattr(kinds, f"{sign}int{bits}")(): getattr(pd, f"{'U' if sign else ''}Int{bits}Dtype")()
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    }
    frame: pd.DataFrame = table.to_pandas(types_mapper=whole.get, ignore_metadata=True)
    return frame


def wrap_parquet_errors(path: Path, read: Callable[[], T]) -> T:
    """Run one step of reading; turn any error of pyarrow into a :class:`DataFormatError`."""
    try:
        return read()
    except GlnnError:
        raise
    except Exception as error:  # pyarrow's own errors derive from many built-in ones
        raise DataFormatError(
            f"{quote_path(path)} must be a whole Parquet file, got: {one_line(error)}. "
            "Export it again."
        ) from error


# Tables by suffix

TABLE_SUFFIXES = (".csv", ".tsv", ".xlsx", ".parquet")
# Known formats that are no tables; as text they would give misleading errors.
_OTHER_SUFFIXES = (".npz", ".npy", ".graphml", ".gexf", ".xls", ".ods", ".zip")


def read_frame(
    path: Path,
    options: TableOptions = DEFAULT_OPTIONS,
    *,
    select_text: Callable[[Sequence[str]], Collection[str]] = lambda names: (),
    header: bool = True,
) -> pd.DataFrame:
    """Read a table as a frame of numbers, dates and text.

    The suffix is ``.parquet``, ``.xlsx`` (first sheet), ``.tsv``, or any other for text, read as
    ``options`` say. ``select_text`` gets the column names and returns those that are always text,
    such as ids and labels. Without a ``header`` line the columns are numbered.
    """
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        file = open_parquet(path)
        frame = wrap_parquet_errors(path, lambda: arrow_to_frame(file.read()))
        return frame.set_axis(list(parse_column_names(path, list(frame.columns))), axis=1)
    if suffix == ".xlsx":
        return read_workbook(path, header)
    if suffix in _OTHER_SUFFIXES:
        raise DataFormatError(
            f"{quote_path(path)} must be a table ({', '.join(TABLE_SUFFIXES)} or other text), "
            f"got a {suffix} file. Save it as one of those; glnn data convert may help."
        )
    return read_text_table(path, options, select_text, header)


def read_first_row(path: Path, options: TableOptions = DEFAULT_OPTIONS) -> tuple[str, ...]:
    """Read the cells of the first line, or the column names of a Parquet file."""
    if path.suffix.lower() == ".parquet":
        schema = open_parquet(path).schema_arrow
        return wrap_parquet_errors(path, lambda: tuple(str(name) for name in schema.names))
    if path.suffix.lower() == ".xlsx":
        return tuple(str(cell) for cell in read_sheet(path, n_rows=1).iloc[0])
    return read_first_line(path, options)


# Writing tables

SPECIAL_COLUMNS = ("id", "label", "split")
_BATCH_CELLS = 4_000_000  # bounds the size of a dense block


def edge_table_path(path: Path) -> Path:
    """Return the path of the edge list that belongs to a table."""
    return path.with_suffix(f".edges{path.suffix}")


def write_node_table(data: NodeData, path: Path) -> None:
    """Write ids, features, labels and split as one table, and the edges as a second one.

    Text is not escaped, so that ids and labels are read back unchanged. Spreadsheets treat cells
    that begin with ``=``, ``+``, ``-`` or ``@`` as formulas; see docs/data.md.
    """
    check_feature_names(data, "a table")
    edges_path = edge_table_path(path)
    if data.graph is None and edges_path.exists():
        raise InputError(
            f"{quote_path(edges_path)} must not exist, or it would be read as the graph of "
            f"{path.name}. Remove it, or choose another name."
        )
    write_frames(path, _iterate_frames(data))
    if data.graph is not None:
        write_edge_table(edges_path, data.graph, data.node_ids)


def check_feature_names(data: NodeData, what: str) -> None:
    """Refuse features that are named like a special column: id, label or split."""
    clash = [name for name in data.column_names if name in SPECIAL_COLUMNS]
    if clash:
        raise InputError(f"feature_names must not be {clash[0]!r} in {what}. Rename the feature.")


def write_edge_table(path: Path, graph: Any, ids: Sequence[object] | np.ndarray) -> None:
    """Write source, target and weight of each undirected edge once."""
    rows, columns, weights = upper_triangle(graph)
    names = np.asarray(ids)
    frame = pd.DataFrame({"source": names[rows], "target": names[columns], "weight": weights})
    write_frames(path, [frame])


def write_frames(path: Path, frames: Iterable[pd.DataFrame]) -> None:
    """Write the rows of all frames to one file atomically; the suffix decides on the format."""
    if path.suffix.lower() == ".parquet":
        arrow, parquet = import_optional("pyarrow"), import_optional("pyarrow.parquet")
        with atomic_write(path, "wb") as file:
            tables = (arrow.Table.from_pandas(frame, preserve_index=False) for frame in frames)
            first = next(tables)
            with parquet.ParquetWriter(file, first.schema, write_page_checksum=True) as writer:
                writer.write_table(first)
                for table in tables:
                    writer.write_table(table)
        return
    mark = "\t" if path.suffix.lower() == ".tsv" else ","
    with atomic_write(path) as file:
        for place, frame in enumerate(frames):
            frame.to_csv(file, sep=mark, index=False, header=place == 0, lineterminator="\r\n")


def label_texts(data: NodeData) -> list[str]:
    """Return the class name of each node, empty text if it has no label."""
    return [data.class_names[label] if label >= 0 else "" for label in data.labels]


def split_texts(data: NodeData) -> list[str]:
    """Return the part of the split of each node, empty text if it is in none."""
    texts = np.full(data.n_nodes, "", dtype="<U5")
    for key, nodes in data.splits.items():
        texts[nodes] = key
    return texts.tolist()


def _iterate_frames(data: NodeData) -> Iterator[pd.DataFrame]:
    """Yield the record as frames of some rows each, to avoid one dense copy of all features."""
    size = max(1, _BATCH_CELLS // data.n_features)
    labels, splits = label_texts(data), split_texts(data)
    for start in range(0, data.n_nodes, size):
        rows = slice(start, start + size)
        frame = pd.DataFrame(data.features[rows].toarray(), columns=list(data.column_names))
        frame.insert(0, "id", data.node_ids[rows])
        frame["label"] = labels[rows]
        yield frame.assign(split=splits[rows]) if data.splits else frame


# Formulas in spreadsheets

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def escape_formula(cell: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would take for a formula."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
