"""Tables from CSV, TSV, Excel and Parquet files as pandas frames, by the suffix."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import pandas as pd

from glnn.data.files import shown_path
from glnn.data.parquet import guarded, open_parquet, parquet_frame
from glnn.data.table_text import AS_FOUND, TableFormat, column_names, first_line, read_text_table
from glnn.data.workbook import read_workbook, sheet_cells
from glnn.exceptions import DataFormatError

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
        What was read in one of two ways is told by :func:`glnn.data.cells.notes_on_thousands`.
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
