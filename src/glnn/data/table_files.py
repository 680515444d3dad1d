"""Tables from CSV, TSV, Excel and Parquet files as pandas frames, by the suffix."""

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar
from xml.parsers import expat

import numpy as np
import pandas as pd

from glnn._utils import need
from glnn.data.files import atomic_write, check_file, one_line, parsing, shown, shown_path
from glnn.data.node_data import NodeData, upper_pairs
from glnn.data.npz import opened_zip
from glnn.data.table_text import AS_FOUND, TableFormat, column_names, first_line, read_text_table
from glnn.exceptions import DataFormatError, GlnnError, InputError

# --- xml_guard: A first pass over XML that refuses what could grow without end or reach for other

MAX_DEPTH = 32
_BLOCK = 2**16


def refuse_declarations(file: Any, what: str, start: Any = None) -> None:
    """Walk through an XML file; refuse document types, entities and deep nesting.

    Parameters
    ----------
    file
        The open file.
    what
        What it should be, for messages: ``"a GraphML file"``.
    start
        Called with the tag, its attributes and its depth at the start of every element. Without
        it the pass ends at the first element, as declarations stand before it.
    """
    depth = 0

    def refuse(*_: Any) -> None:
        raise DataFormatError(
            f"{what} must have no document type or entity declarations, got one. "
            "Remove the <!DOCTYPE ...> line."
        )

    def open_element(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > MAX_DEPTH:
            raise DataFormatError(f"{what} must nest at most {MAX_DEPTH} deep.")
        if start is not None:
            start(tag.rpartition(":")[2], attributes, depth)

    def close_element(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser = expat.ParserCreate()
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    parser.StartElementHandler = open_element
    parser.EndElementHandler = close_element
    while block := file.read(_BLOCK):
        parser.Parse(block, False)
        if depth and start is None:
            return
    parser.Parse(b"", True)


# --- workbook: Excel workbooks: a zip of XML, checked as such before openpyxl sees it

MAX_BYTES = 2**30
MAX_EXPANSION = 250


def read_workbook(path: Path, header: bool) -> pd.DataFrame:
    """Return the table on the first sheet."""
    frame = sheet_cells(path)
    if header and len(frame):
        first = [None if pd.isna(cell) else cell for cell in frame.iloc[0]]
        frame = frame.iloc[1:].set_axis(list(column_names(path, first)), axis=1)
    else:
        frame.columns = frame.columns.map(str)
    return frame.reset_index(drop=True).infer_objects()


def sheet_cells(path: Path, n_rows: int | None = None) -> pd.DataFrame:
    """Return the cells of the first sheet, or of its first rows."""
    check_file(path, max_bytes=MAX_BYTES)
    need("openpyxl")
    with parsing(path, "Excel"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl speaks of styles and extensions
        with opened_zip(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
            if unpacked > max(MAX_BYTES // 4, MAX_EXPANSION * path.stat().st_size):
                raise DataFormatError(
                    f"{shown_path(path)} must unpack to a sensible size, got {unpacked:,} bytes."
                )
            for member in archive.infolist():
                if member.filename.endswith((".xml", ".rels")):
                    with archive.open(member) as file:
                        refuse_declarations(file, "an Excel file")
        cells = pd.read_excel(path, header=None, nrows=n_rows, keep_default_na=True)
    if not len(cells):
        raise DataFormatError(f"{shown_path(path)} must have a first sheet with rows, got none.")
    return cells


# --- parquet: Parquet files through pyarrow; what they declare is checked before anything is read

SMALL_TABLE = 10_000_000
MAX_CELLS_PER_BYTE = 2_000

T = TypeVar("T")


def open_parquet(path: Path) -> Any:
    """Return the Parquet file of pyarrow, if what it declares is sensible; nothing is read yet."""
    check_file(path, max_bytes=2**35)
    return guarded(path, lambda: _checked_parquet(path))


def _checked_parquet(path: Path) -> Any:
    file = need("pyarrow.parquet").ParquetFile(path)
    n_rows, n_columns = file.metadata.num_rows, file.metadata.num_columns
    limit = max(SMALL_TABLE, MAX_CELLS_PER_BYTE * path.stat().st_size)
    if not file.schema_arrow.names or n_rows * n_columns > limit:
        raise DataFormatError(
            f"{shown_path(path)} must declare a sensible size, got {n_rows:,} rows and "
            f"{n_columns:,} columns. Nothing was read."
        )
    nested = need("pyarrow.types").is_nested
    for field in file.schema_arrow:
        if nested(field.type):
            raise DataFormatError(
                f"column {shown(field.name)} of {shown_path(path)} must hold one value a cell, "
                f"got {one_line(field.type)}."
            )
    return file


def parquet_frame(table: Any) -> pd.DataFrame:
    """Return a table of pyarrow as a frame; whole numbers with gaps stay whole numbers.

    Its cells are looked at first: text that is not UTF-8 would fail wherever it is used later.
    """
    kinds = need("pyarrow")
    table.validate(full=True)
    whole = {
        getattr(kinds, f"{sign}int{bits}")(): getattr(pd, f"{'U' if sign else ''}Int{bits}Dtype")()
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    }
    frame: pd.DataFrame = table.to_pandas(types_mapper=whole.get, ignore_metadata=True)
    return frame


def guarded(path: Path, read: Callable[[], T]) -> T:
    """Run one step of reading; whatever pyarrow raises on a bad file becomes one clear line."""
    try:
        return read()
    except GlnnError:
        raise
    except Exception as error:  # pyarrow's own errors derive from many built-in ones
        raise DataFormatError(
            f"{shown_path(path)} must be a whole Parquet file, got: {one_line(error)}. "
            "Export it again."
        ) from error


# --- table_file: Tables from CSV, TSV, Excel and Parquet files as pandas frames, by the suffix

TABLE_SUFFIXES = (".csv", ".tsv", ".xlsx", ".parquet")
_OTHER_SUFFIXES = (".npz", ".npy", ".graphml", ".gexf", ".xls", ".ods", ".zip")
"""Files of other kinds, which would be told of as tables that are badly written."""


def read_frame(
    path: Path,
    form: TableFormat = AS_FOUND,
    *,
    as_text: Callable[[Sequence[str]], Collection[str]] = lambda names: (),
    header: bool = True,
) -> pd.DataFrame:
    """Return a table as a frame of numbers, dates and text.

    Parameters
    ----------
    path
        ``.parquet``, ``.xlsx`` (its first sheet), ``.tsv``, or any other text.
    form
        How text is written.
    as_text
        Told the column names, says which of them are text whatever they hold: ids and labels.
    header
        Whether the first line names the columns; otherwise they are numbered.

    Returns
    -------
    DataFrame
        What was read in one of two ways is told by :func:`glnn.data.table_text.notes_on_thousands`.
    """
    suffix = path.suffix.lower()
    if suffix == ".parquet":
        file = open_parquet(path)
        frame = guarded(path, lambda: parquet_frame(file.read()))
        return frame.set_axis(list(column_names(path, list(frame.columns))), axis=1)
    if suffix == ".xlsx":
        return read_workbook(path, header)
    if suffix in _OTHER_SUFFIXES:
        raise DataFormatError(
            f"{shown_path(path)} must be a table ({', '.join(TABLE_SUFFIXES)} or other text), "
            f"got a {suffix} file. Save it as one of those; glnn data convert may help."
        )
    return read_text_table(path, form, as_text, header)


def names_of(frame: pd.DataFrame) -> list[str]:
    """Return the column names of a frame as text."""
    return [str(name) for name in frame.columns]


def first_row(path: Path, form: TableFormat = AS_FOUND) -> tuple[str, ...]:
    """Return the cells of the first line, or the column names of a Parquet file."""
    if path.suffix.lower() == ".parquet":
        schema = open_parquet(path).schema_arrow
        return guarded(path, lambda: tuple(str(name) for name in schema.names))
    if path.suffix.lower() == ".xlsx":
        return tuple(str(cell) for cell in sheet_cells(path, n_rows=1).iloc[0])
    return first_line(path, form)


# --- table_out: Writing records, graphs and predictions as tables with the nodes' own ids

SPECIAL_COLUMNS = ("id", "label", "split")
_BATCH_CELLS = 4_000_000


def edges_beside(path: Path) -> Path:
    """Return where the edges of a table are kept: ``people.csv`` has ``people.edges.csv``.

    Examples
    --------
    >>> edges_beside(Path("people.csv")).name
    'people.edges.csv'
    """
    return path.with_suffix(f".edges{path.suffix}")


def write_node_table(data: NodeData, path: Path) -> None:
    """Write id, features, label and split as one table, and the edges as a second one beside it.

    Text is written as it is, so that ids and labels come back unchanged. A cell that begins with
    ``=``, ``+``, ``-`` or ``@`` is a formula to a spreadsheet; see docs/data.md.
    """
    refuse_special_names(data, "a table")
    beside = edges_beside(path)
    if data.graph is None and beside.exists():
        raise InputError(
            f"{shown_path(beside)} must not be there, or it would be read as the graph of "
            f"{path.name}. Remove it, or choose another name."
        )
    write_frames(path, _frames(data))
    if data.graph is not None:
        write_edge_table(beside, data.graph, data.node_ids)


def refuse_special_names(data: NodeData, what: str) -> None:
    """Refuse features that bear the name of a column with a meaning of its own."""
    clash = [name for name in data.column_names if name in SPECIAL_COLUMNS]
    if clash:
        raise InputError(f"feature_names must not be {clash[0]!r} in {what}. Rename the feature.")


def write_edge_table(path: Path, graph: Any, ids: Sequence[object] | np.ndarray) -> None:
    """Write source, target and weight of each edge once."""
    rows, columns, weights = upper_pairs(graph)
    names = np.asarray(ids)
    frame = pd.DataFrame({"source": names[rows], "target": names[columns], "weight": weights})
    write_frames(path, [frame])


def write_frames(path: Path, frames: Iterable[pd.DataFrame]) -> None:
    """Write the rows of frames one after the other, whole or not at all, by the path's suffix."""
    if path.suffix.lower() == ".parquet":
        arrow, parquet = need("pyarrow"), need("pyarrow.parquet")
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
    """Return the class name of each node, empty text where it is unknown."""
    return [data.class_names[label] if label >= 0 else "" for label in data.labels]


def split_texts(data: NodeData) -> list[str]:
    """Return the part of the split that each node is in, empty text where it is in none."""
    texts = np.full(data.n_nodes, "", dtype="<U5")
    for key, nodes in data.splits.items():
        texts[nodes] = key
    return texts.tolist()


def _frames(data: NodeData) -> Iterator[pd.DataFrame]:
    """Yield the record as frames of some rows each, so that no dense copy of all is made."""
    size = max(1, _BATCH_CELLS // data.n_features)
    labels, splits = label_texts(data), split_texts(data)
    for start in range(0, data.n_nodes, size):
        rows = slice(start, start + size)
        frame = pd.DataFrame(data.features[rows].toarray(), columns=list(data.column_names))
        frame.insert(0, "id", data.node_ids[rows])
        frame["label"] = labels[rows]
        yield frame.assign(split=splits[rows]) if data.splits else frame


# --- spreadsheet: Cells that no spreadsheet takes for a formula

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def safe_cell(cell: Any) -> Any:
    """Return a cell that is no formula: an apostrophe before text that a spreadsheet would run.

    Examples
    --------
    >>> safe_cell("=1+1"), safe_cell("-3"), safe_cell("oak"), safe_cell(-0.5)
    ("'=1+1", '-3', 'oak', -0.5)
    """
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
