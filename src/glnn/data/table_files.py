"""Reading and writing tables as pandas frames, by the suffix.

Workbooks and Parquet files are checked for sensible sizes before they are read.
"""

import json
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from glnn._utils import did_you_mean, import_optional
from glnn.data.files import (
    atomic_write,
    check_file,
    one_line,
    quote,
    quote_path,
    quote_some,
    wrap_parse_errors,
)
from glnn.data.node_data import NodeData, extract_links
from glnn.data.npz import open_zip
from glnn.data.table_text import (
    COMPRESSED,
    DEFAULT_OPTIONS,
    TableOptions,
    check_cells,
    count_title_rows,
    drop_stray_rows,
    max_text_bytes,
    open_table,
    parse_column_names,
    plain_text,
    read_first_line,
    read_text_table,
    table_suffix,
)
from glnn.exceptions import DataFormatError, InputError

# Excel workbooks: zip archives of XML, which openpyxl parses with defusedxml

MAX_BYTES = 2**30


def read_workbook(path: Path, options: TableOptions, header: bool) -> pd.DataFrame:
    """Read a sheet of a workbook as a table."""
    frame = read_sheet(path, options.sheet)
    notes, known = frame.attrs["notes"], frame.notna()
    frame = frame.loc[known.any(axis=1).cummax(), known.any()]  # the table may begin at C4
    top = [list(map(plain_text, row)) for row in frame.head(20).to_numpy()]
    n_titles = count_title_rows(top) if header else 0
    if n_titles:
        frame = frame.iloc[n_titles:]
        notes = [*notes, f"table: left out {n_titles} rows above the column names"]
    if header and len(frame):
        cells = list(map(plain_text, frame.iloc[0]))
        names = list(parse_column_names(path, cells))
        frame = drop_stray_rows(frame.iloc[1:].set_axis(names, axis=1).infer_objects(), cells)
        notes = [*notes, *frame.attrs["notes"]]
        frame = frame.rename(columns=frame.attrs["renamed"])
    else:
        frame.columns = frame.columns.map(str)
    frame = frame.reset_index(drop=True).infer_objects()
    frame.attrs["notes"] = notes
    return frame


def read_sheet(path: Path, sheet: str | None = None, n_rows: int | None = None) -> pd.DataFrame:
    """Read the cells of a sheet, by default the first, or of its first rows."""
    check_file(path, max_bytes=MAX_BYTES)
    import_optional("openpyxl")
    with wrap_parse_errors(path, "Excel"):
        open_zip(path).close()  # refuses one that unpacks to too much
        with pd.ExcelFile(path) as book:
            names = list(map(str, book.sheet_names))
            if sheet is not None and sheet not in names:
                raise InputError(
                    f"--sheet must name a sheet of {quote_path(path)}, got {quote(sheet)}. It has "
                    f"{quote_some(names, 8)}.{did_you_mean(sheet, names)}"
                )
            shown = [name for name in names if book.book[name].sheet_state == "visible"]
            chosen = (shown or names)[0] if sheet is None else sheet
            cells = book.parse(chosen, header=None, nrows=n_rows, keep_default_na=True)
    if not len(cells):
        raise DataFormatError(
            f"{quote_path(path)} must have rows in the sheet {quote(chosen)}, got none; its sheets "
            f"are {quote_some(names, 8)}. Name one with --sheet."
        )
    others = [name for name in names if name != chosen]
    note = f"table: read the sheet {quote(chosen)}; --sheet names another ({quote_some(others)})"
    cells.attrs["notes"] = [note] if others and sheet is None else []
    return cells


# JSON: a list of records, or one record a line


def read_json(path: Path) -> pd.DataFrame:
    """Read a table from JSON lines, or from a list of JSON objects."""
    with open_table(path) as file, wrap_parse_errors(path, "JSON"):
        most_bytes = max_text_bytes(path)
        raw = file.read(most_bytes + 1)
        if len(raw) > most_bytes:
            raise DataFormatError(
                f"{quote_path(path)} must unpack to at most {most_bytes:,} bytes, got more."
            )
        text = raw.decode("utf-8-sig")
        is_list = text.lstrip().startswith("[")
        lines = [line for line in text.splitlines() if line.strip()]
        rows = json.loads(text) if is_list else [json.loads(line) for line in lines]
    other = next((row for row in rows if not isinstance(row, dict)), None if rows else "nothing")
    if other is not None:
        raise DataFormatError(
            f"{quote_path(path)} must hold one JSON object a line, or a list of them, got "
            f"{quote(other)}."
        )
    with wrap_parse_errors(path, "JSON"):
        frame = pd.DataFrame(rows)
        for name in frame:
            check_cells(quote_path(path), str(name), frame[name])
    return frame


# Parquet files

SMALL_TABLE = 10_000_000  # so many cells are accepted for any size of the file
MAX_CELLS_PER_BYTE = 2_000


def open_parquet(path: Path) -> Any:
    """Open a Parquet file with pyarrow and check its declared size and types; reads no cells."""
    check_file(path, max_bytes=2**35)
    parquet = import_optional("pyarrow.parquet")
    with wrap_parse_errors(path, "Parquet"):
        file = parquet.ParquetFile(path)
        n_rows, n_columns = file.metadata.num_rows, file.metadata.num_columns
        limit = max(SMALL_TABLE, MAX_CELLS_PER_BYTE * path.stat().st_size)
        if not file.schema_arrow.names or n_rows * n_columns > limit:
            raise DataFormatError(
                f"{quote_path(path)} must declare a sensible size, got {n_rows:,} rows and "
                f"{n_columns:,} columns. Nothing was read."
            )
        _check_flat(path, file.schema_arrow)
    return file


def _check_flat(path: Path, schema: Any) -> None:
    nested = import_optional("pyarrow.types").is_nested
    for field in schema:
        if nested(field.type):
            raise DataFormatError(
                f"column {quote(field.name)} of {quote_path(path)} must hold one value a cell, "
                f"got {one_line(field.type)}."
            )


def read_parquet(path: Path) -> pd.DataFrame:
    """Read the table of a Parquet file."""
    with wrap_parse_errors(path, "Parquet"):
        return arrow_to_frame(open_parquet(path).read())


def read_feather(path: Path) -> pd.DataFrame:
    """Read the table of a Feather file."""
    feather = import_optional("pyarrow.feather")
    with wrap_parse_errors(check_file(path), "Feather"):
        table = feather.read_table(path)
        _check_flat(path, table.schema)
        return arrow_to_frame(table)


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


# Tables by suffix

TABLE_SUFFIXES = (".csv", ".tsv", ".xlsx", ".parquet", ".feather", ".jsonl", ".ndjson", ".json")
JSON_SUFFIXES = TABLE_SUFFIXES[-3:]
NAMED_SUFFIXES = (".parquet", ".feather", *JSON_SUFFIXES)  # their columns always have names
# Known formats that are no tables; as text they would give misleading errors.
_GRAPHS = (".npz", ".graphml", ".gexf")
_OTHER_SUFFIXES = (*_GRAPHS, ".npy", ".xls", ".ods")


def read_frame(
    path: Path,
    options: TableOptions = DEFAULT_OPTIONS,
    *,
    select_text: Callable[[Sequence[str]], Collection[str]] = lambda names: (),
    header: bool = True,
) -> pd.DataFrame:
    """Read a table as a frame of numbers, dates and text.

    The suffix is one of ``TABLE_SUFFIXES``, or any other for text, read as ``options`` say; that
    of a compression may follow it. ``attrs["notes"]`` says how the file was read. ``select_text``
    gets the column names and returns those that are always text,
    such as ids and labels. Without a ``header`` line the columns are numbered.
    """
    suffix = table_suffix(path)
    if suffix in NAMED_SUFFIXES:
        read = {".parquet": read_parquet, ".feather": read_feather}.get(suffix, read_json)
        frame = read(path)
        return frame.set_axis(list(parse_column_names(path, list(frame.columns))), axis=1)
    if suffix == ".xlsx":
        return read_workbook(path, options, header)
    if suffix in _OTHER_SUFFIXES:
        more = "; glnn data convert may help" if suffix in _GRAPHS else ""
        raise DataFormatError(
            f"{quote_path(path)} must be a table ({', '.join(TABLE_SUFFIXES)} or other text), "
            f"got a {suffix} file. Save it as one of those{more}."
        )
    return read_text_table(path, options, select_text, header)


def read_first_row(path: Path, options: TableOptions = DEFAULT_OPTIONS) -> tuple[str, ...]:
    """Read the cells of the first line, or the column names of a file that has them."""
    suffix = table_suffix(path)
    if suffix == ".parquet":
        return tuple(map(str, open_parquet(path).schema_arrow.names))
    if suffix in (".feather", *JSON_SUFFIXES):
        return tuple(map(str, read_frame(path).columns))
    if suffix == ".xlsx":
        return tuple(str(cell) for cell in read_sheet(path, options.sheet, n_rows=1).iloc[0])
    return read_first_line(path, options)


# Writing tables

SPECIAL_COLUMNS = ("id", "label", "split")
_GROUP_CELLS = 4_000_000  # of a row group of a Parquet file, which is read at once


def edge_table_path(path: Path) -> Path:
    """Return the path of the edge list that belongs to a table."""
    ends = Path(path.stem).suffix + path.suffix if path.suffix in COMPRESSED else path.suffix
    return path.with_name(f"{path.name.removesuffix(ends)}.edges{ends}")


def find_edge_table(path: Path) -> Path | None:
    """Return the edge list that belongs to a table, if there is one."""
    beside = edge_table_path(path)
    return beside if beside.is_file() else None


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
    frame = pd.DataFrame(data.features.toarray(), columns=list(data.column_names))
    frame.insert(0, "id", data.node_ids)
    frame["label"] = label_texts(data)
    write_frame(path, frame.assign(split=split_texts(data)) if data.splits else frame)
    if data.graph is not None:
        write_edge_table(edges_path, data.graph, data.node_ids)


def check_feature_names(data: NodeData, what: str, *special: str) -> None:
    """Refuse features that are named like a special column: id, label, split or others."""
    clash = [name for name in data.column_names if name in (*SPECIAL_COLUMNS, *special)]
    if clash:
        raise InputError(f"feature_names must not be {clash[0]!r} in {what}. Rename the feature.")


def write_edge_table(path: Path, graph: Any, ids: Sequence[object] | np.ndarray) -> None:
    """Write source, target and weight of each undirected edge once."""
    links, names = extract_links(graph), np.asarray(ids)
    columns = {"source": names[links.row], "target": names[links.col], "weight": links.data}
    write_frame(path, pd.DataFrame(columns))


def write_frame(path: Path, frame: pd.DataFrame) -> None:
    """Write a frame to a file atomically; the suffix decides on the format."""
    if path.suffix.lower() == ".parquet":
        import_optional("pyarrow")
        with atomic_write(path, "wb") as file:
            size = max(1, _GROUP_CELLS // frame.shape[1])
            frame.to_parquet(file, index=False, row_group_size=size, write_page_checksum=True)
        return
    mark = "\t" if path.suffix.lower() == ".tsv" else ","
    with atomic_write(path) as file:
        frame.to_csv(file, sep=mark, index=False, lineterminator="\r\n")


def label_texts(data: NodeData) -> list[str]:
    """Return the class name of each node, empty text if it has no label."""
    return [data.class_names[label] if label >= 0 else "" for label in data.labels]


def split_texts(data: NodeData) -> list[str]:
    """Return the part of the split of each node, empty text if it is in none."""
    texts = np.full(data.n_nodes, "", dtype="<U5")
    for key, nodes in data.splits.items():
        texts[nodes] = key
    return texts.tolist()


# Formulas in spreadsheets

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def escape_formula(cell: Any) -> Any:
    """Put an apostrophe before text that a spreadsheet would take for a formula.

    Such text that has one already gets another, so that :func:`unescape_formula` takes away the
    right one.
    """
    if not isinstance(cell, str) or not cell.lstrip("'").startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def unescape_formula(cell: str) -> str:
    """Take away the apostrophe that :func:`escape_formula` has put before a text."""
    return cell[1:] if cell.startswith("'") and escape_formula(cell[1:]) == cell else cell
