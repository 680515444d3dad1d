"""Tables as batches of columns, from CSV, TSV or Parquet, never whole in memory."""

import csv
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from glnn.data.files import check_file, not_utf8, parsing, shown, shown_path
from glnn.exceptions import DataFormatError, InputError

Column = np.ndarray | Sequence[str]
"""Numbers (float64) where the file says so, otherwise the text of each cell."""

BATCH_CELLS = 50_000
MAX_LINE = 2**26
MAX_COLUMNS = 1_000_000
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")


class TextTable:
    """A CSV or TSV file: its first line, and its rows in batches.

    The delimiter is a tab in ``.tsv`` files; elsewhere the comma if the first line has one,
    then the semicolon, then the tab.
    """

    def __init__(self, path: Path) -> None:
        self.path = check_file(path)
        with self._open() as file, parsing(path, "CSV"):
            line = next(_bounded_lines(file, path), "")
            self.delimiter = _delimiter(path, line)
        self.first_row = tuple(next(self._rows(), ()))
        if not self.first_row:
            raise DataFormatError(
                f"{shown_path(path)} must begin with a line of column names, got an empty line."
            )
        if len(self.first_row) > MAX_COLUMNS:
            raise DataFormatError(
                f"{shown_path(path)} must have at most {MAX_COLUMNS:,} columns, got "
                f"{len(self.first_row):,}."
            )

    def batches(self, *, skip_first: bool = True) -> Iterator[list[Column]]:
        """Yield the columns of the next rows, as many as fit a batch."""
        size = max(1, BATCH_CELLS // len(self.first_row))
        rows = itertools.islice(self._rows(), int(skip_first), None)
        while batch := list(itertools.islice(rows, size)):
            yield list(zip(*batch))

    def _rows(self) -> Iterator[list[str]]:
        """Rows that are not empty, all of one length."""
        width = 0
        with self._open() as file, parsing(self.path, "CSV"):
            reader = csv.reader(
                _bounded_lines(file, self.path), delimiter=self.delimiter, strict=True
            )
            for row in reader:
                width = width or len(row)
                if row and len(row) != width:
                    raise DataFormatError(
                        f"{shown_path(self.path)} must have {width} cells in every line, got "
                        f"{len(row)} in line {reader.line_num}. Quote cells that hold "
                        "delimiters."
                    )
                if row:
                    yield row

    def _open(self) -> TextIO:
        return self.path.open(encoding="utf-8-sig", newline="")


def _bounded_lines(file: TextIO, path: Path) -> Iterator[str]:
    """Lines of a text file; one that never ends is refused before it fills the memory."""
    try:
        while line := file.readline(MAX_LINE):
            if len(line) == MAX_LINE and not line.endswith("\n"):
                raise DataFormatError(
                    f"{shown_path(path)} must have lines of at most {MAX_LINE:,} characters."
                )
            yield line
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from error


def _delimiter(path: Path, line: str) -> str:
    if path.suffix.lower() == ".tsv":
        return "\t"
    outside_quotes = "".join(line.split('"')[::2])
    return next((mark for mark in ",;\t" if mark in outside_quotes), ",")


def open_table(path: Path) -> "TextTable":
    """Return the table of a file, by its suffix: ``.parquet``, ``.tsv``, or CSV."""
    if path.suffix.lower() == ".parquet":
        from glnn.data.parquet import ParquetTable

        return ParquetTable(path)
    return TextTable(path)


def column_names(table: "TextTable") -> tuple[str, ...]:
    """Return distinct column names; a first column without a name is the id column."""
    names = list(table.first_row)
    if not names[0].strip() and "id" not in names:
        names[0] = "id"
    blank = [place for place, name in enumerate(names) if not name.strip()]
    if blank:
        raise DataFormatError(
            f"{shown_path(table.path)} must name every column in its first line, got none for "
            f"column {blank[0] + 1}."
        )
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataFormatError(
            f"{shown_path(table.path)} must name each column once, got {shown(twice)} twice."
        )
    return tuple(names)


def find_column(
    path: Path, names: Sequence[str], wanted: str | None, usual: str, what: str
) -> int | None:
    """Return the place of the wanted column, or of the usual one if none was asked for."""
    if wanted is None:
        return names.index(usual) if usual in names else None
    if wanted not in names:
        raise InputError(
            f"{what} must be a column of {shown_path(path)}, got {shown(wanted)}. "
            f"Its columns are {', '.join(map(shown, names[:8]))}"
            f"{', ...' if len(names) > 8 else ''}."
        )
    return names.index(wanted)


def as_text(column: Column) -> list[str]:
    """Return the cells as text; whole numbers without a point, missing numbers as empty text.

    Examples
    --------
    >>> as_text(np.array([1.0, np.nan, 0.5]))
    ['1', '', '0.5']
    """
    if not isinstance(column, np.ndarray):
        return list(column)
    return [
        ""
        if np.isnan(v)
        else str(int(v))
        if v == np.floor(v) and abs(v) < 2**53
        else repr(float(v))
        for v in column
    ]


def as_numbers(column: Column) -> np.ndarray | None:
    """Return the cells as float64, or nothing if one of them is not a number.

    Examples
    --------
    >>> as_numbers(["1", "2.5e-3"]).tolist(), as_numbers(["1", "two"])
    ([1.0, 0.0025], None)
    """
    if isinstance(column, np.ndarray):
        return column
    joined = "".join(column)
    if "_" in joined or not joined.isascii():  # Python would read 1_000 and other digits
        return None
    try:
        return np.array(column, dtype=np.float64)
    except ValueError:
        return None
