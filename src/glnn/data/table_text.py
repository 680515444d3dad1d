"""Tables in text files: how they are written is found out, and pandas reads them."""

import codecs
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from glnn._validation import check_choice
from glnn.data.cells import GAPS, clear_decimal, with_grouped_numbers
from glnn.data.files import check_file, parsing, shown, shown_path
from glnn.exceptions import DataFormatError, InputError

DELIMITERS = (",", ";", "\t", "|")
MAX_LINE = 2**26
MAX_COLUMNS = 1_000_000
_BLOCK = 2**20
_SAMPLE_LINES = 50
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_QUOTED = re.compile('"(?:[^"]|"")*"')

Decimal = Literal[".", ","] | str


@dataclass(frozen=True)
class TableFormat:
    """How the text of a table is written; ``None`` finds it out from the file.

    Parameters
    ----------
    delimiter
        What stands between two cells (``"tab"`` for a tab); found out among comma, semicolon,
        tab and pipe.
    decimal
        ``"."`` or ``","``. The other one may then part groups of three digits.
    encoding
        A name that Python knows, such as ``"cp1252"``; UTF-8 unless a byte order mark tells.
    """

    delimiter: str | None = None
    decimal: Decimal | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter in ("\\t", "tab"):  # as people type it
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise InputError(
                f"delimiter must be one character, or 'tab', got {shown(self.delimiter)}."
            )
        if self.decimal is not None:
            check_choice("decimal", self.decimal, (".", ","))
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError:
                raise InputError(
                    f"encoding must be one that Python knows, such as utf-8 or cp1252; got "
                    f"{shown(self.encoding)}."
                ) from None


AS_FOUND = TableFormat()


def read_text_table(
    path: Path, form: TableFormat, as_text: Callable[[Sequence[str]], Collection[str]], header: bool
) -> pd.DataFrame:
    """Return the table of a text file; see :func:`glnn.data.table_file.read_frame`."""
    delimiter, encoding = _layout(path, form)
    cells = _first_line(path, delimiter, encoding)
    names = column_names(path, cells) if header else tuple(map(str, range(len(cells))))
    text = set(as_text(names))

    def read(decimal: str) -> pd.DataFrame:
        return _parsed(
            path,
            sep=delimiter,
            encoding=encoding,
            header=0 if header else None,
            names=list(names),
            index_col=False,
            dtype=dict.fromkeys(text, "str"),
            na_values={name: GAPS for name in names if name not in text},
            decimal=decimal,
        )

    if form.decimal is not None:
        frame = with_grouped_numbers(read(form.decimal), form.decimal, text)
        frame.attrs.clear()  # what was asked for needs no word
        return frame
    frame = read(".")
    decimal = clear_decimal(frame)
    if decimal == ",":
        frame = read(",")
    return frame if decimal is None else with_grouped_numbers(frame, decimal, text)


def _parsed(path: Path, **options: Any) -> pd.DataFrame:
    """Read CSV text with pandas; a line with too many cells is an error, not a warning."""
    with parsing(path, "CSV"), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame: pd.DataFrame = pd.read_csv(
                path, keep_default_na=False, low_memory=False, **options
            )
            return frame
        except pd.errors.ParserWarning:
            raise DataFormatError(
                f"{shown_path(path)} must have at most as many cells in a line as in the first, "
                "got more. Quote cells that hold delimiters."
            ) from None
        except pd.errors.EmptyDataError:
            raise DataFormatError(
                f"{shown_path(path)} must begin with a line of column names, got nothing."
            ) from None


def _layout(path: Path, form: TableFormat) -> tuple[str, str]:
    """Return delimiter and encoding, after a pass that refuses other bytes and endless lines."""
    encoding = form.encoding or _marked_encoding(check_file(path))
    sample = _scanned(path, encoding)
    if form.delimiter is not None:
        return form.delimiter, encoding
    if path.suffix.lower() == ".tsv":
        return "\t", encoding
    return _likely_delimiter(sample), encoding


def _marked_encoding(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(4)
    return next((name for mark, name in _MARKS if start.startswith(mark)), "utf-8")


def _scanned(path: Path, encoding: str) -> str:
    """Decode the file block by block; return its beginning."""
    decoder = codecs.getincrementaldecoder(encoding)()
    sample, n_open, n_bytes = "", 0, 0
    with path.open("rb") as file:
        while True:
            block = file.read(_BLOCK)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeError as error:
                raise _not_in(path, encoding, n_bytes, error) from None
            if not block:
                return sample
            sample, n_bytes = sample or text, n_bytes + len(block)
            end = max(text.rfind("\n"), text.rfind("\r"))
            n_open = n_open + len(text) if end < 0 else len(text) - end - 1
            if n_open > MAX_LINE:
                raise DataFormatError(
                    f"{shown_path(path)} must have lines of at most {MAX_LINE:,} characters."
                )


def _not_in(path: Path, encoding: str, start: int, error: UnicodeError) -> DataFormatError:
    place = start + int(getattr(error, "start", 0))
    return DataFormatError(
        f"{shown_path(path)} must be {encoding.upper()} text, got other bytes at byte {place}. "
        "Name its encoding with --encoding (encoding='cp1252' for many spreadsheets), or save it "
        "as UTF-8."
    )


def _likely_delimiter(sample: str) -> str:
    """Return the mark that stands equally often in the first lines, or else most in the first."""
    outside = _QUOTED.sub("", sample)
    lines = [line for line in outside.splitlines() if line.strip()][:_SAMPLE_LINES]
    counts = {mark: [line.count(mark) for line in lines] for mark in DELIMITERS}
    even = {mark: n[0] for mark, n in counts.items() if n and n[0] and len(set(n[:-1])) <= 1}
    found = even or {mark: n[0] for mark, n in counts.items() if n and n[0]}
    return max(found, key=lambda mark: found[mark], default=",")


def first_line(path: Path, form: TableFormat) -> tuple[str, ...]:
    """Return the cells of the first line that is not empty."""
    return _first_line(path, *_layout(path, form))


def _first_line(path: Path, delimiter: str, encoding: str) -> tuple[str, ...]:
    options = {"sep": delimiter, "encoding": encoding, "header": None, "dtype": "str"}
    cells = tuple(_parsed(path, nrows=1, **options).iloc[0].tolist())
    if len(cells) > MAX_COLUMNS:
        raise DataFormatError(
            f"{shown_path(path)} must have at most {MAX_COLUMNS:,} columns, got {len(cells):,}."
        )
    return cells


def column_names(path: Path, cells: Sequence[object]) -> tuple[str, ...]:
    """Return distinct column names; a first column without a name is the id column."""
    names = ["" if cell is None else str(cell) for cell in cells]
    if names and not names[0].strip() and "id" not in names:
        names[0] = "id"
    blank = [place for place, name in enumerate(names) if not name.strip()]
    if blank or not names:
        raise DataFormatError(
            f"{shown_path(path)} must name every column in its first line, got none for column "
            f"{blank[0] + 1 if blank else 1}."
        )
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataFormatError(
            f"{shown_path(path)} must name each column once, got {shown(twice)} twice."
        )
    return tuple(names)
