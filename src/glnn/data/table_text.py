"""Tables in text files.

First :class:`TableOptions` and the meaning of cells (numbers, dates, missing); then delimiter,
encoding and decimal mark are detected, and pandas reads the file.
"""

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

from glnn._utils import check_choice
from glnn.data.files import check_file, quote, quote_path, wrap_parse_errors
from glnn.exceptions import DataFormatError, InputError

# Options

# The types admit any text: values of the command line are checked in ``TableOptions``.
OnUnknown = Literal["error", "drop"] | str
Encode = Literal["error", "onehot", "auto"] | str
Missing = Literal["error", "median", "indicator"] | str
Decimal = Literal[".", ","] | str


@dataclass(frozen=True)
class TableOptions:
    """How a table is read and its columns are used; docs/data.md has the details."""

    id_column: str | None = None  # by default ``id``, else one named like an id, else row numbers
    label_column: str | None = None  # by default ``label`` if there is one
    group_column: str | None = None  # group of each row, for the folds of an evaluation
    time_column: str | None = None  # time of each row, for the same
    on_unknown: OnUnknown = "error"  # for labels and edges of ids without features
    encode: Encode = "error"  # text columns
    missing: Missing = "error"  # missing cells of numbers and dates
    dates: bool = False  # turn dates into days since the column's first date
    features: Sequence[str] = ()  # names or patterns (``"x*"``) of the columns to use ...
    drop: Sequence[str] = ()  # ... and of those to leave out
    drop_constant: bool = False  # leave out columns with one value only
    needs_label: bool = False  # refuse a table without a label column, and suggest one
    delimiter: str | None = None  # one character or "tab"; detected: comma, semicolon, tab, pipe
    decimal: Decimal | None = None  # "." or ","; the other one may separate groups of 3 digits
    encoding: str | None = None  # a codec of Python; detected: byte order mark, else UTF-8

    def __post_init__(self) -> None:
        check_choice("on_unknown", self.on_unknown, ("error", "drop"))
        check_choice("encode", self.encode, ("error", "onehot", "auto"))
        check_choice("missing", self.missing, ("error", "median", "indicator"))
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "drop", tuple(self.drop))
        if self.delimiter in ("\\t", "tab"):  # as people type it
            object.__setattr__(self, "delimiter", "\t")
        if self.delimiter is not None and len(self.delimiter) != 1:
            raise InputError(
                f"delimiter must be one character, or 'tab', got {quote(self.delimiter)}."
            )
        if self.decimal is not None:
            check_choice("decimal", self.decimal, (".", ","))
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise InputError(
                f"encoding must be a codec of Python, such as utf-8 or cp1252; got "
                f"{quote(self.encoding)}."
            ) from None

    def replace(self, **changes: Any) -> "TableOptions":
        """Return the options with some fields changed; unknown names are refused."""
        known = [field.name for field in dataclasses.fields(self)]
        for name in changes:
            check_choice("an option of a table", name, known)
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return the options as a JSON-compatible dict."""
        return {**dataclasses.asdict(self), "features": [*self.features], "drop": [*self.drop]}


DEFAULT_OPTIONS = TableOptions()


# Cells of a column: numbers, dates or text

# Cells of numeric columns that stand for a missing number
MISSING_MARKERS = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "#N/A", "<NA>")

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


def to_text(column: pd.Series) -> list[str]:
    """Convert the cells to text: whole numbers without a point, missing cells as empty text."""
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        days = bool((column.dropna() == column.dropna().dt.normalize()).all())
        column = column.dt.strftime("%Y-%m-%d" if days else "%Y-%m-%dT%H:%M:%S")
    missing = column.isna().to_numpy()
    return ["" if gap else _cell_to_text(cell) for cell, gap in zip(column.tolist(), missing)]


def _cell_to_text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53:
        return str(int(cell))
    return str(cell)


def strip_cells(column: pd.Series) -> list[str]:
    """Convert the cells to text without surrounding blanks."""
    return [cell.strip() for cell in to_text(column)]


def to_numbers(column: pd.Series) -> np.ndarray | None:
    """Convert the cells to float64, NaN if missing; ``None`` if a cell is not a number."""
    kind = column.dtype
    if pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind):
        return None
    if not _is_text(column):
        if pd.api.types.is_complex_dtype(kind) or not pd.api.types.is_numeric_dtype(kind):
            return None
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    known = column[~column.isna().to_numpy()].astype(object)
    if any(not isinstance(cell, str | int | float | np.number | np.bool_) for cell in known):
        return None
    known = known[
        [not (isinstance(cell, str) and cell.strip() in MISSING_MARKERS) for cell in known]
    ]
    known = known.map(lambda cell: _to_float(cell) if type(cell) is int else cell)
    numbers = pd.to_numeric(known, errors="coerce").astype(np.float64)
    if numbers.isna().any():
        return None
    return np.asarray(numbers.reindex(column.index).to_numpy(), dtype=np.float64)


def _to_float(number: int) -> float:
    try:
        return float(number)
    except OverflowError:  # more than 308 digits
        return np.inf


def detect_decimal(frame: pd.DataFrame) -> Literal[".", ","] | None:
    """Detect the decimal mark of a table that was read with points; ``None`` if it is unclear.

    ``1,5`` and ``1.234,5`` imply a comma; ``1,234.5``, ``1,234,567`` and columns of numbers with
    fractions imply a point; ``61,333`` alone is ambiguous.
    """
    columns = {name: _present_cells(frame[name]) for name in frame}
    for cells in columns.values():
        grouped = all(_GROUPED[","].fullmatch(cell) for cell in cells)
        if grouped and any(_COMMA_IS_DECIMAL.fullmatch(cell) for cell in cells):
            return ","
    for name, cells in columns.items():
        if any(_POINT_IS_DECIMAL.fullmatch(cell) for cell in cells):
            return "."
        if pd.api.types.is_float_dtype(frame[name].dtype):
            known = frame[name].dropna()
            if bool((known != np.floor(known)).any()):
                return "."
    return None


def parse_grouped_numbers(frame: pd.DataFrame, decimal: str, text: Collection[str]) -> pd.DataFrame:
    """Convert text columns whose cells are numbers in groups of three digits to numbers.

    Without the other columns of the table, ``61,054`` could be a fraction. The number of such
    cells of each column is kept in ``attrs["thousands"]``.
    """
    group = "," if decimal == "." else "."
    changed: dict[str, pd.Series] = {}
    thousands: dict[str, int] = {}
    for name in map(str, frame):
        cells = [] if name in text else _present_cells(frame[name])
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


def describe_thousands(frame: pd.DataFrame, names: Collection[str]) -> Iterator[str]:
    """Yield a sentence if cells that could be fractions were read as thousands."""
    found = {name: n for name, n in frame.attrs.get("thousands", {}).items() if name in names}
    if found:
        mark, other = ("commas", ",") if frame.attrs["group"] == "," else ("points", ".")
        listed = [f"{quote(name)} ({n:,} cell{'s' * (n != 1)})" for name, n in found.items()]
        more = f" and {len(listed) - 3} more columns" if len(listed) > 3 else ""
        yield (
            f"features: {mark} read as thousands in {', '.join(listed[:3])}{more}; "
            f"with --set decimal={other} (decimal='{other}') they begin fractions"
        )


def find_ambiguous_number(column: pd.Series) -> str | None:
    """Return a cell such as ``61,333`` if the whole column may be fractions or thousands."""
    cells = _present_cells(column)
    if cells and all(_GROUPED["."].fullmatch(cell) for cell in cells):
        return next((cell for cell in cells if "," in cell), None)
    return None


def detect_date_format(column: pd.Series) -> str | None:
    """Return the date format of a column, or ``None`` if it does not hold dates.

    ``"dates"`` stands for a column that pandas stores as dates. Callers check with
    :func:`find_ambiguous_date` whether day and month could be exchanged.
    """
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "dates"
    found = _fitting_date_formats(column)
    return found[0] if found else None


def find_ambiguous_date(column: pd.Series) -> str | None:
    """Return a cell such as ``01/02/2020`` if day and month could be exchanged in every cell."""
    return _present_cells(column)[0] if len(_fitting_date_formats(column)) > 1 else None


def _fitting_date_formats(column: pd.Series) -> list[str]:
    cells = _present_cells(column)
    if not cells:
        return []
    if all(_ISO.fullmatch(cell) for cell in cells):
        return ["ISO8601"] if _parse_dates(cells, "ISO8601") is not None else []
    if not all(len(cell) <= 10 and cell[:1].isdigit() for cell in cells[:100]):
        return []
    return [form for form in DATE_FORMATS[1:] if _parse_dates(cells, form) is not None]


def _parse_dates(cells: list[str], form: str) -> pd.Series | None:
    try:
        return pd.Series(pd.to_datetime(pd.Series(cells, dtype=object), format=form, utc=True))
    except (ValueError, OverflowError):
        return None


def days_since_1970(column: pd.Series, form: str) -> np.ndarray | None:
    """Convert dates to days, NaN if missing; ``None`` if a cell does not have the format."""
    days = np.full(len(column), np.nan)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        known = ~column.isna().to_numpy()
        dates: Any = pd.to_datetime(column[known], utc=True)
    else:
        texts = strip_cells(column)
        known = np.array([cell not in MISSING_MARKERS for cell in texts], dtype=bool)
        wanted = "ISO8601" if form == "dates" else form
        dates = _parse_dates([cell for cell in texts if cell not in MISSING_MARKERS], wanted)
        if dates is None:
            return None
    start = pd.Timestamp("1970-01-01", tz="UTC")
    days[known] = (dates - start) / pd.Timedelta(days=1)
    return days


def _is_text(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.StringDtype) or column.dtype == object


def _present_cells(column: pd.Series) -> list[str]:
    """Return the cells of a text column without the missing ones; none of another column."""
    cells = strip_cells(column) if _is_text(column) else []
    return [cell for cell in cells if cell not in MISSING_MARKERS]


# Reading the text

DELIMITERS = (",", ";", "\t", "|")
MAX_LINE = 2**26
MAX_COLUMNS = 1_000_000
_BLOCK = 2**20
_SAMPLE_LINES = 50
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_QUOTED = re.compile('"(?:[^"]|"")*"')


def read_text_table(
    path: Path,
    options: TableOptions,
    select_text: Callable[[Sequence[str]], Collection[str]],
    header: bool,
) -> pd.DataFrame:
    """Read the table of a text file; see :func:`glnn.data.table_files.read_frame`."""
    delimiter, encoding = _detect_layout(path, options)
    cells = _read_first_cells(path, delimiter, encoding)
    names = parse_column_names(path, cells) if header else tuple(map(str, range(len(cells))))
    text = set(select_text(names))

    def read(decimal: str) -> pd.DataFrame:
        return _read_csv(
            path,
            sep=delimiter,
            encoding=encoding,
            header=0 if header else None,
            names=list(names),
            index_col=False,
            dtype=dict.fromkeys(text, "str"),
            na_values={name: MISSING_MARKERS for name in names if name not in text},
            decimal=decimal,
        )

    if options.decimal is not None:
        frame = parse_grouped_numbers(read(options.decimal), options.decimal, text)
        frame.attrs.clear()  # the user chose the decimal mark: no note on thousands
        return frame
    frame = read(".")
    decimal = detect_decimal(frame)
    if decimal == ",":
        frame = read(",")
    return frame if decimal is None else parse_grouped_numbers(frame, decimal, text)


def _read_csv(path: Path, **options: Any) -> pd.DataFrame:
    """Read CSV text with pandas; a line with too many cells is an error, not a warning."""
    with wrap_parse_errors(path, "CSV"), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            frame: pd.DataFrame = pd.read_csv(
                path, keep_default_na=False, low_memory=False, **options
            )
            return frame
        except pd.errors.ParserWarning:
            raise DataFormatError(
                f"{quote_path(path)} must have at most as many cells in a line as in the first, "
                "got more. Quote cells that hold delimiters."
            ) from None
        except pd.errors.EmptyDataError:
            raise DataFormatError(
                f"{quote_path(path)} must begin with a line of column names, got nothing."
            ) from None


def _detect_layout(path: Path, options: TableOptions) -> tuple[str, str]:
    """Return delimiter and encoding, after a scan that refuses undecodable bytes and huge lines."""
    with check_file(path).open("rb") as file:
        start = file.read(4)
    marked = (name for mark, name in _BYTE_ORDER_MARKS if start.startswith(mark))
    encoding = options.encoding or next(marked, "utf-8")
    sample = _scan_text(path, encoding)
    if options.delimiter is not None:
        return options.delimiter, encoding
    if path.suffix.lower() == ".tsv":
        return "\t", encoding
    return _detect_delimiter(sample), encoding


def _scan_text(path: Path, encoding: str) -> str:
    """Decode the file block by block to check it; return its first block."""
    decoder = codecs.getincrementaldecoder(encoding)()
    sample, n_open, n_bytes = "", 0, 0
    with path.open("rb") as file:
        while True:
            block = file.read(_BLOCK)
            try:
                text = decoder.decode(block, final=not block)
            except UnicodeError as error:
                place = n_bytes + int(getattr(error, "start", 0))
                raise DataFormatError(
                    f"{quote_path(path)} must be {encoding.upper()} text, got other bytes at byte "
                    f"{place}. Name its encoding with --set encoding=NAME (encoding='cp1252' for "
                    "many spreadsheets), or save it as UTF-8."
                ) from None
            if not block:
                return sample
            sample, n_bytes = sample or text, n_bytes + len(block)
            end = max(text.rfind("\n"), text.rfind("\r"))
            n_open = n_open + len(text) if end < 0 else len(text) - end - 1
            if n_open > MAX_LINE:
                raise DataFormatError(
                    f"{quote_path(path)} must have lines of at most {MAX_LINE:,} characters."
                )


def _detect_delimiter(sample: str) -> str:
    """Return the mark that is equally frequent in the first lines, else most frequent in line 1."""
    outside = _QUOTED.sub("", sample)
    lines = [line for line in outside.splitlines() if line.strip()][:_SAMPLE_LINES]
    counts = {mark: [line.count(mark) for line in lines] for mark in DELIMITERS}
    even = {mark: n[0] for mark, n in counts.items() if n and n[0] and len(set(n[:-1])) <= 1}
    found = even or {mark: n[0] for mark, n in counts.items() if n and n[0]}
    return max(found, key=lambda mark: found[mark], default=",")


def read_first_line(path: Path, options: TableOptions) -> tuple[str, ...]:
    """Return the cells of the first line that is not empty."""
    return _read_first_cells(path, *_detect_layout(path, options))


def _read_first_cells(path: Path, delimiter: str, encoding: str) -> tuple[str, ...]:
    options = {"sep": delimiter, "encoding": encoding, "header": None, "dtype": "str"}
    cells = tuple(_read_csv(path, nrows=1, **options).iloc[0].tolist())
    if len(cells) > MAX_COLUMNS:
        raise DataFormatError(
            f"{quote_path(path)} must have at most {MAX_COLUMNS:,} columns, got {len(cells):,}."
        )
    return cells


def parse_column_names(path: Path, cells: Sequence[object]) -> tuple[str, ...]:
    """Check that column names are unique and not blank; a first column without a name is ``id``."""
    names = ["" if cell is None else str(cell) for cell in cells]
    if names and not names[0].strip() and "id" not in names:
        names[0] = "id"
    blank = [place for place, name in enumerate(names) if not name.strip()]
    if blank or not names:
        raise DataFormatError(
            f"{quote_path(path)} must name every column in its first line, got none for column "
            f"{blank[0] + 1 if blank else 1}."
        )
    if len(set(names)) != len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise DataFormatError(
            f"{quote_path(path)} must name each column once, got {quote(twice)} twice."
        )
    return tuple(names)
