"""Tables in text files: how they are written is found out, and pandas reads them."""

import codecs
import dataclasses
import re
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from glnn._utils import check_choice, did_you_mean
from glnn.data.files import check_file, parsing, shown, shown_path
from glnn.exceptions import DataFormatError, InputError

# --- cells: What the cells of a column mean: numbers, dates or text

GAPS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A", "<NA>")
"""Cells of number columns that stand for a missing number."""

DATE_FORMATS = ("ISO8601", "%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?(Z|[+-]\d{2}:?\d{2})?")
_COMMA_IS_DECIMAL = re.compile(
    r"[+-]?(\d+,(\d{1,2}|\d{4,})|0,\d+|\d{4,},\d+|\d{1,3}(\.\d{3})+,\d+)([eE][+-]?\d+)?"
)
_POINT_IS_DECIMAL = re.compile(r"[+-]?\d{1,3}(,\d{3})+\.\d+|[+-]?\d{1,3}(,\d{3}){2,}")
_GROUPED = {
    ".": re.compile(r"[+-]?(\d{1,3}(,\d{3})+|\d+)(\.\d*)?([eE][+-]?\d+)?"),
    ",": re.compile(r"[+-]?(\d{1,3}(\.\d{3})+|\d+)(,\d*)?([eE][+-]?\d+)?"),
}


def is_text(column: pd.Series) -> bool:
    """Whether pandas keeps the column as text or as Python objects."""
    return isinstance(column.dtype, pd.StringDtype) or column.dtype == object


def as_text(column: pd.Series) -> list[str]:
    """Return the cells as text; whole numbers without a point, missing ones as empty text.

    Examples
    --------
    >>> as_text(pd.Series([1.0, None, 0.5]))
    ['1', '', '0.5']
    """
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        days = bool((column.dropna() == column.dropna().dt.normalize()).all())
        column = column.dt.strftime("%Y-%m-%d" if days else "%Y-%m-%dT%H:%M:%S")
    missing = column.isna().to_numpy()
    return ["" if gap else _cell_text(cell) for cell, gap in zip(column.tolist(), missing)]


def _cell_text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell)


def stripped(column: pd.Series) -> list[str]:
    """Return the cells as text without blanks around them."""
    return [cell.strip() for cell in as_text(column)]


def as_numbers(column: pd.Series) -> np.ndarray | None:
    """Return the cells as float64 with NaN for gaps, or nothing if one of them is no number.

    Examples
    --------
    >>> as_numbers(pd.Series(["1", "2.5e-3", ""])), as_numbers(pd.Series(["1", "two"]))
    (array([1.    , 0.0025,    nan]), None)
    """
    kind = column.dtype
    if pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind):
        return None
    if not is_text(column):
        if pd.api.types.is_complex_dtype(kind) or not pd.api.types.is_numeric_dtype(kind):
            return None
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    known = column[~column.isna().to_numpy()].astype(object)
    if any(not isinstance(cell, str | int | float | np.number | np.bool_) for cell in known):
        return None
    known = known[[not (isinstance(cell, str) and cell.strip() in GAPS) for cell in known]]
    numbers = pd.to_numeric(known, errors="coerce").astype(np.float64)
    if numbers.isna().any():
        return None
    return np.asarray(numbers.reindex(column.index).to_numpy(), dtype=np.float64)


def clear_decimal(frame: pd.DataFrame) -> Literal[".", ","] | None:
    """Return the decimal mark of a table that was read with points, where its cells tell.

    ``1,5`` and ``1.234,5`` tell of commas; ``1,234.5``, ``1,234,567`` and columns of numbers with
    points tell of points; ``61,333`` alone tells nothing.
    """
    for name in frame:
        if is_text(frame[name]):
            cells = _known_cells(frame[name])
            numbers = bool(cells) and all(_GROUPED[","].fullmatch(cell) for cell in cells)
            if numbers and any(_COMMA_IS_DECIMAL.fullmatch(cell) for cell in cells):
                return ","
    for name in frame:
        if is_text(frame[name]):
            cells = _known_cells(frame[name])
            if any(_POINT_IS_DECIMAL.fullmatch(cell) for cell in cells):
                return "."
        elif pd.api.types.is_float_dtype(frame[name].dtype):
            known = frame[name].dropna()
            if bool((known != np.floor(known)).any()):
                return "."
    return None


def with_grouped_numbers(frame: pd.DataFrame, decimal: str, text: Collection[str]) -> pd.DataFrame:
    """Turn text columns whose cells are numbers in groups of three digits into numbers.

    A column such as ``61,054`` could hold fractions if other columns did not tell. How many of its
    cells were read as thousands is kept under its name in ``attrs["thousands"]``.
    """
    group = "," if decimal == "." else "."
    changed: dict[str, pd.Series] = {}
    thousands: dict[str, int] = {}
    for name in map(str, frame):
        if name not in text and is_text(frame[name]):
            cells = _known_cells(frame[name])
            if cells and all(_GROUPED[decimal].fullmatch(cell) for cell in cells):
                plain = frame[name].str.strip().str.replace(group, "").str.replace(decimal, ".")
                changed[name] = pd.to_numeric(plain)
                if all(decimal not in cell and cell.count(group) < 2 for cell in cells):
                    thousands[name] = sum(group in cell for cell in cells)
    if not changed:
        return frame
    out = frame.assign(**changed)
    out.attrs["thousands"] = {name: count for name, count in thousands.items() if count}
    out.attrs["group"] = group
    return out


def notes_on_thousands(frame: pd.DataFrame, names: Collection[str]) -> Iterator[str]:
    """Yield a sentence if cells of some columns were read as thousands and could be fractions."""
    found = {name: n for name, n in frame.attrs.get("thousands", {}).items() if name in names}
    if found:
        mark, other = ("commas", ",") if frame.attrs["group"] == "," else ("points", ".")
        listed = [f"{shown(name)} ({n:,} cell{'s' * (n != 1)})" for name, n in found.items()]
        more = f" and {len(listed) - 3} more columns" if len(listed) > 3 else ""
        yield (
            f"features: {mark} read as thousands in {', '.join(listed[:3])}{more}; "
            f"with --decimal {other} (decimal='{other}') they begin fractions"
        )


def is_ambiguous(column: pd.Series) -> str | None:
    """Return a cell such as ``61,333`` where the whole column may be fractions or thousands."""
    cells = _known_cells(column) if is_text(column) else []
    if cells and all(_GROUPED["."].fullmatch(cell) for cell in cells):
        return next((cell for cell in cells if "," in cell), None)
    return None


def date_format(column: pd.Series) -> str | None:
    """Return how the dates of a column are written, or nothing if it does not hold dates.

    ``"dates"`` stands for a column that pandas keeps as dates. A column that could be read with
    the day first and with the month first is refused by the caller: see :func:`ambiguous_dates`.
    """
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "dates"
    found = _date_formats(column)
    return found[0] if found else None


def ambiguous_dates(column: pd.Series) -> str | None:
    """Return a cell such as ``01/02/2020`` where no cell of the column tells day from month."""
    if not is_text(column) or len(_date_formats(column)) < 2:
        return None
    return shown(_known_cells(column)[0])


def _date_formats(column: pd.Series) -> list[str]:
    cells = _known_cells(column) if is_text(column) else []
    if not cells:
        return []
    if all(_ISO.fullmatch(cell) for cell in cells):
        return ["ISO8601"] if _parse(cells, "ISO8601") is not None else []
    if not all(len(cell) <= 10 and cell[:1].isdigit() for cell in cells[:100]):
        return []
    return [form for form in DATE_FORMATS[1:] if _parse(cells, form) is not None]


def _parse(cells: list[str], form: str) -> pd.Series | None:
    try:
        return pd.Series(pd.to_datetime(pd.Series(cells, dtype=object), format=form, utc=True))
    except (ValueError, OverflowError):
        return None


def days_since_1970(column: pd.Series, form: str) -> np.ndarray | None:
    """Return dates as days, NaN where there is none, or nothing if a cell is no such date."""
    days = np.full(len(column), np.nan)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        known = ~column.isna().to_numpy()
        dates: Any = pd.to_datetime(column[known], utc=True)
    else:
        texts = stripped(column)
        known = np.array([cell not in GAPS for cell in texts], dtype=bool)
        wanted = "ISO8601" if form == "dates" else form
        dates = _parse([cell for cell in texts if cell not in GAPS], wanted)
        if dates is None:
            return None
    start = pd.Timestamp("1970-01-01", tz="UTC")
    days[known] = (dates - start) / pd.Timedelta(days=1)
    return days


def _known_cells(column: pd.Series) -> list[str]:
    return [cell for cell in stripped(column) if cell not in GAPS]


# --- table_text: Tables in text files: how they are written is found out, and pandas reads them

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
    """Return the table of a text file; see :func:`glnn.data.table_files.read_frame`."""
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


# --- options: How to read a table: one value for Python, the command line and saved runs

OnUnknown = Literal["error", "drop"] | str
Encode = Literal["error", "onehot", "auto"] | str
Missing = Literal["error", "median", "indicator"] | str
# Each admits any text: what the command line brings is checked below, with a line of its own.


@dataclass(frozen=True)
class TableOptions:
    """How the columns of a table are used.

    Parameters
    ----------
    id_column
        The column of ids; by default ``id``, else a column named like an id (``customer_id``)
        that has a value of its own in every row, else rows are numbered from 0.
    label_column
        The column of labels; by default ``label`` if there is one.
    on_unknown
        What to do with labels and edges of ids that have no features: ``"error"`` or ``"drop"``.
    encode
        Text columns: ``"error"`` refuses them; ``"onehot"`` gives each value (at most 100) a
        column of 0 and 1; ``"auto"`` does so up to 30 values, gives other text the share of rows
        that hold the same value, and turns dates into numbers.
    missing
        Gaps in columns of numbers and dates: ``"error"`` refuses them, ``"median"`` fills in the
        column's median, ``"indicator"`` also adds a column of 0 and 1 that marks the gaps.
    dates
        Turn columns of dates into numbers: days since the column's first date.
    features, drop
        Names or patterns (``"x*"``) of the columns to use, and of those to leave out.
    drop_constant
        Leave out columns that hold one value only.
    needs_label
        Refuse a table without a label column, and offer the column that looks most like one.
    delimiter, decimal, encoding
        See :class:`glnn.data.table_text.TableFormat`.
    """

    id_column: str | None = None
    label_column: str | None = None
    on_unknown: OnUnknown = "error"
    encode: Encode = "error"
    missing: Missing = "error"
    dates: bool = False
    features: Sequence[str] = ()
    drop: Sequence[str] = ()
    drop_constant: bool = False
    needs_label: bool = False
    delimiter: str | None = None
    decimal: Decimal | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        check_choice("on_unknown", self.on_unknown, ("error", "drop"))
        check_choice("encode", self.encode, ("error", "onehot", "auto"))
        check_choice("missing", self.missing, ("error", "median", "indicator"))
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "drop", tuple(self.drop))
        _ = self.form

    @property
    def form(self) -> TableFormat:
        """How the text of the table is written."""
        return TableFormat(self.delimiter, self.decimal, self.encoding)

    def changed(self, **changes: Any) -> "TableOptions":
        """Return the options with some fields changed; an unknown name is refused."""
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            if name not in known:
                raise InputError(
                    f"options of a table must be among {', '.join(known)}; got {name!r}."
                    f"{did_you_mean(name, known)}"
                )
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {**dataclasses.asdict(self), "features": [*self.features], "drop": [*self.drop]}


DEFAULT = TableOptions()
