"""Tables in text files.

First :class:`TableOptions` and the meaning of cells (numbers, dates, missing); then delimiter,
encoding and decimal mark are detected, and pandas reads the file.
"""

import bz2
import codecs
import contextlib
import csv
import dataclasses
import decimal
import gzip
import io
import re
import unicodedata
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from glnn._utils import check_choice, did_you_mean
from glnn.data.files import (
    MAX_EXPANSION,
    MAX_TEXT_BYTES,
    SMALL_BYTES,
    check_file,
    quote,
    quote_path,
    quote_some,
    wrap_parse_errors,
)
from glnn.exceptions import DataFormatError, InputError

# Options

KINDS = ("number", "category", "dmy", "mdy")  # the last two are dates, by the order of their parts


@dataclass(frozen=True)
class TableOptions:
    """How a table is read and its columns are used; docs/data.md has the details."""

    id_column: str | None = None  # by default ``id``, else one named like an id, else row numbers
    label_column: str | None = None  # by default ``label`` if there is one
    group_column: str | None = None  # group of each row, for the folds of an evaluation
    time_column: str | None = None  # time of each row, for the same
    on_unknown: str = "error"  # or "drop": labels and edges of ids without features
    encode: str = "auto"  # text and dates: "error", "onehot" or "auto"
    missing: str = "auto"  # missing numbers and dates: "error", "median", "indicator" or "auto"
    kinds: Mapping[str, str] = field(default_factory=dict)  # one of KINDS by column, not guessed
    na: Sequence[str] = ()  # further cells that mean missing
    exact_labels: bool = False  # "unknown" is a class, and so are labels that differ in case
    features: Sequence[str] = ()  # names or patterns (``"x*"``) of the columns to use ...
    drop: Sequence[str] = ()  # ... and of those to leave out
    drop_constant: bool = False  # leave out columns with one value only
    needs_label: bool = False  # refuse a table without a label column, and suggest one
    delimiter: str | None = None  # one character or "tab"; detected: comma, semicolon, tab, pipe
    decimal: str | None = None  # "." or ","; the other one may separate groups of 3 digits
    encoding: str | None = None  # a codec; detected: byte order mark, UTF-8, else Windows-1252
    sheet: str | None = None  # of a workbook; by default the first
    source_column: str | None = None  # of an edge list; by default found by name and content
    target_column: str | None = None
    weight_column: str | None = None  # "none": without weights

    def __post_init__(self) -> None:
        check_choice("on_unknown", self.on_unknown, ("error", "drop"))
        check_choice("encode", self.encode, ("error", "onehot", "auto"))
        check_choice("missing", self.missing, ("error", "median", "indicator", "auto"))
        for kind in self.kinds.values():
            check_choice("the kind of a column", kind, KINDS)
        for name in ("features", "drop", "na"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
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


DEFAULT_OPTIONS = TableOptions()


# Cells of a column: numbers, dates or text

# Cells of numeric columns that stand for a missing number
_ERRORS = (  # of spreadsheets, also German and French ones
    *("#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!", "#SPILL!", "#CALC!"),
    *("#NV", "#WERT!", "#BEZUG!", "#ZAHL!", "#N/D", "#VALEUR!"),
)
_NULLS = (
    *("", "NA", "N/A", "n/a", "NaN", "nan", "-nan", "NULL", "null", "None", "NaT", "#N/A", "#NA"),
    *("<NA>", "\\N"),
)
MISSING_MARKERS = dict.fromkeys((*_NULLS, *_ERRORS))  # in this order, and quick to search
# Words, in any case, that stand for a missing value but could also be a category
_PLACEHOLDERS = (
    *("?", "-", "--", "–", "—", ".", "...", "…", "unknown", "missing", "n.a.", "na", "n/a", "nan"),
    *("null", "(null)", "[null]", "<null>", "nil", "(blank)", "not available", "tbd"),
    *("0000-00-00", "9999-12-31"),  # no date, and no end, in databases
)

_NUMERIC_DATES = ("%d.%m.%Y", "%Y/%m/%d", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%m-%d-%Y")
_WORD_DATES = ("%d %b %Y", "%d-%b-%Y", "%b %d, %Y", "%d %B %Y", "%B %d, %Y", "%Y.%m.%d")
_TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
DATE_FORMATS = ("ISO8601", *(day + time for time in _TIMES for day in _NUMERIC_DATES + _WORD_DATES))
_LIKE_DATE = re.compile(r"\d{1,4}([./-])\d{1,2}\1\d{2,4}\b.*")
_ISO = re.compile(
    r"\d{4}-\d{2}(-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?( UTC|Z|[+-]\d{2}:?\d{2})?)?"
)
# Numbers whose digits may be in groups of three, by the decimal mark
_GROUPED = {
    ".": re.compile(r"[+-]?([1-9]\d{0,2}(,\d{2,3})*,\d{3}|\d+)(\.\d*)?([eE][+-]?\d+)?"),
    ",": re.compile(r"[+-]?([1-9]\d{0,2}(\.\d{3})+|\d+)(,\d*)?([eE][+-]?\d+)?"),
}


def to_text(column: pd.Series) -> list[str]:
    """Convert the cells to text: whole numbers without a point, missing cells as empty text."""
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        days = bool((column.dropna() == column.dropna().dt.normalize()).all())
        column = column.dt.strftime("%Y-%m-%d" if days else "%Y-%m-%dT%H:%M:%S")
    cells = [
        int(cell) if isinstance(cell, float) and cell.is_integer() and abs(cell) < 2**53 else cell
        for cell in column.tolist()
    ]
    return ["" if gap else str(cell) for cell, gap in zip(cells, column.isna())]


_YES_NO = dict.fromkeys(("yes", "y", "true", "1", "ja", "j", "oui"), "yes")
_YES_NO |= dict.fromkeys(("no", "n", "false", "0", "nein", "non"), "no")


_INVISIBLE = re.compile("[\u200b-\u200f\ufeff]")  # zero-width blanks and marks of direction


def merge_spellings(counts: Mapping[str, int]) -> dict[str, str]:
    """Map values that differ from a more frequent one only in case, blanks or a word for yes.

    Invisible characters do not count, nor does the form in which accents are stored.
    """
    plain = [unicodedata.normalize("NFC", _INVISIBLE.sub("", value)) for value in counts]
    folded = {value: " ".join(text.split()).casefold() for value, text in zip(counts, plain)}
    if set(folded.values()) <= _YES_NO.keys():
        folded = {value: _YES_NO[key] for value, key in folded.items()}
    best: dict[str, str] = {}
    order = sorted(counts, key=lambda value: (-counts[value], value))
    firsts = {value: best.setdefault(folded[value], value) for value in order}
    return {value: first for value, first in firsts.items() if value != first}


def strip_cells(column: pd.Series) -> list[str]:
    """Convert the cells to text without surrounding blanks."""
    return [cell.strip() for cell in to_text(column)]


_BOOLS = {"true": 1, "True": 1, "TRUE": 1, "false": 0, "False": 0, "FALSE": 0}


def to_numbers(column: pd.Series) -> np.ndarray | None:
    """Convert the cells to float64, NaN if missing; ``None`` if a cell is not a number."""
    kind = column.dtype
    if pd.api.types.is_datetime64_any_dtype(kind) or pd.api.types.is_timedelta64_dtype(kind):
        return None
    if not _is_text(column):
        if pd.api.types.is_complex_dtype(kind) or not pd.api.types.is_numeric_dtype(kind):
            return None
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    cells, is_known = column.to_numpy(dtype=object), ~column.isna().to_numpy()
    kinds = str | int | float | decimal.Decimal | np.number | np.bool_
    if any(not isinstance(cell, kinds) for cell in cells[is_known]):
        return None
    is_known[is_known] = [str(cell).strip() not in MISSING_MARKERS for cell in cells[is_known]]
    known = cells[is_known]
    for k, cell in enumerate(known):  # as text, a number of more than 308 digits is infinite
        is_exact = type(cell) in (int, decimal.Decimal)
        known[k] = float(str(cell)) if is_exact else _BOOLS.get(cell, cell)
    numbers = np.full(len(column), np.nan)
    numbers[is_known] = pd.to_numeric(known, errors="coerce")
    return None if np.isnan(numbers[is_known]).any() else numbers


def is_placeholder(cell: str) -> bool:
    """Whether a cell stands for a missing value, as ``NA``, ``?`` or ``unknown`` do."""
    return cell in MISSING_MARKERS or cell.casefold() in _PLACEHOLDERS


_NUMBER = r"[+-]?(?:\d[\d.,]*|\.\d+)(?:[eE][+-]?\d+)?"
_BOUNDS = ("<", ">", "≤", "≥", "~")
_BEFORE = rf"[$€£¥₹{''.join(_BOUNDS)}]|USD|EUR|GBP|CHF|JPY|CNY|INR|CAD|AUD"
_MARKED = re.compile(rf"([+-]?)({_BEFORE})?\s*({_NUMBER})\s*([%‰$€£¥₹]|[A-Za-zµ°²³/]{{1,8}})?")
_CLOCK = re.compile(r"(?:(\d+) days? )?(\d+):([0-5]\d)(?::([0-5]\d(?:\.\d+)?))?")
_SPACED = re.compile(r"(?<!\d)(?<!\d )[1-9]\d{0,2}(?:[ \u00a0\u2009\u202f'’]\d{3})+(?!\d)")
_SCALES = {"k": "e3", "K": "e3", "M": "e6"}
_MAX_WORDS = 5  # different words that a column of numbers may contain


@dataclass(frozen=True)
class NumberMarks:
    """What surrounds the numbers of a text column."""

    unit: str = ""  # such as "$" or "%", in some or all cells
    decimal: str = ""  # the decimal mark if there are groups of three digits or commas
    words: tuple[str, ...] = ()  # cells that are not numbers


NO_MARKS = NumberMarks()


def find_number_marks(column: pd.Series, *, force: bool = False) -> NumberMarks | None:
    """Return how a text column can be read as numbers, or ``None`` if it cannot.

    At most a fifth of the cells may be other words, or half of them if they are placeholders such
    as ``?``; with ``force`` any number.
    """
    counts = Counter(_present_cells(column))
    parts = {cell: _split_number(cell) for cell in counts}
    words = tuple(sorted(cell for cell, part in parts.items() if part is None))
    numbers = {cell: part for cell, part in parts.items() if part is not None}
    n_words, n_cells = sum(counts[cell] for cell in words), counts.total()
    is_few = len(words) <= _MAX_WORDS and 5 * n_words <= n_cells
    is_few |= 2 * n_words <= n_cells and all(map(is_placeholder, words))
    units = {unit for _, unit in numbers.values()} - {""}
    n_bounds = sum(counts[cell] for cell, (_, unit) in numbers.items() if unit in _BOUNDS)
    if not numbers or len(units) > 1 or 2 * n_bounds > n_cells or not (is_few or force):
        return None
    decimal, plain = "", [number for number, _ in numbers.values()]
    is_odd = any(not unit and number != cell for cell, (number, unit) in numbers.items())
    if is_odd or to_numbers(pd.Series(plain, dtype=object)) is None:
        decimal = detect_decimal([plain]) or "."
        if not _are_numbers(plain, decimal):
            return None
    return NumberMarks("".join(units), decimal, words)


def _split_number(cell: str) -> tuple[str, str] | None:
    """Return the number in a cell and the unit or bound beside it; ``None`` for other text."""
    match = _MARKED.fullmatch(_simplify(cell))
    if match is None:
        return None
    sign, before, number, after = (part or "" for part in match.groups())
    scale = _SCALES.get(after, "")
    unit = before if scale else before + after
    return f"{sign}{number}{scale}", unit.removesuffix("s") if len(unit) > 2 else unit


def _simplify(cell: str) -> str:
    """Return a number without blanks between its digits, and with a minus in front if negative.

    Brackets or a minus behind it stand for one. Times such as ``1:23:45`` become seconds, or
    minutes if they have two parts, and digits of other scripts become 0 to 9.
    """
    clock = _CLOCK.fullmatch(cell) if ":" in cell else None
    if clock is not None:
        days, hours, minutes, seconds = (float(part or 0) for part in clock.groups())
        whole = (24 * days + hours) * 60 + minutes
        return f"{60 * whole + seconds if clock[4] else whole:.10g}"
    cell = cell if cell.isascii() else re.sub(r"[^\D0-9]", lambda match: str(int(match[0])), cell)
    cell = _SPACED.sub(lambda match: re.sub(r"\D", "", match[0]), cell.replace("\u2212", "-"))
    is_minus = (cell[:1] == "(" and cell[-1:] == ")") or (cell[-1:] == "-" and cell[:1] != "-")
    return f"-{cell.strip('(-)')}" if is_minus else cell


def strip_marks(column: pd.Series, marks: NumberMarks) -> pd.Series:
    """Return a column with plain numbers; words become missing cells."""
    if not (_is_text(column) and any(dataclasses.astuple(marks))):
        return column

    def strip(cell: str) -> str:
        if cell in marks.words:
            return ""
        number, unit = _split_number(cell) or ("", None)
        if unit not in ("", marks.unit):
            return cell
        if marks.decimal and _GROUPED[marks.decimal].fullmatch(number):
            return _to_plain(number, marks.decimal)
        return number

    return pd.Series([strip(cell) for cell in strip_cells(column)], column.index, dtype=object)


def empty_cells(column: pd.Series, values: Sequence[str]) -> pd.Series:
    """Return a column whose cells with one of the values are missing.

    Periods become the date of their start, and lengths of time become days.
    """
    if isinstance(column.dtype, pd.PeriodDtype):
        column = column.dt.to_timestamp()
    elif pd.api.types.is_timedelta64_dtype(column.dtype):
        column = column.dt.total_seconds() / 86400
    if not values:
        return column
    gaps = np.array([cell in values for cell in strip_cells(column)], dtype=bool)
    return column.mask(gaps) if gaps.any() else column


def check_cells(where: str, name: str, column: pd.Series) -> None:
    """Refuse a column with lists, dictionaries or arrays in its cells."""
    cells = column if column.dtype == object else ()
    nested = next((c for c in cells if isinstance(c, list | dict | tuple | set | np.ndarray)), None)
    if nested is not None:
        raise DataFormatError(
            f"column {quote(name)} of {where} must hold one value a cell, got "
            f"{type(nested).__name__}. Flatten it, as with pandas.json_normalize, or write a frame "
            "with to_json(path, orient='records')."
        )


def detect_decimal(columns: Iterable[Sequence[str]]) -> str | None:
    """Return the decimal mark by which more columns hold numbers only, ``None`` if both do.

    ``1,5`` and ``1.234,5`` are numbers with a comma, ``1,234.5`` and ``1.5`` with a point, and
    ``61,333`` with both.
    """
    known = list(columns)
    points, commas = (sum(_are_numbers(cells, mark) for cells in known) for mark in ".,")
    return None if points == commas else "." if points > commas else ","


def _to_plain(number: str, decimal: str) -> str:
    return number.replace("," if decimal == "." else ".", "").replace(decimal, ".")


def _are_numbers(cells: Sequence[str], decimal: str) -> bool:
    return all(_GROUPED[decimal].fullmatch(cell) for cell in cells)


def _have_marks(cells: Sequence[str], marks: str = ",.") -> bool:
    return any(mark in cell for cell in cells for mark in marks)


def parse_grouped_numbers(frame: pd.DataFrame, decimal: str, names: Iterable[str]) -> pd.DataFrame:
    """Convert the columns of text whose cells are numbers in groups of digits to numbers."""
    changed: dict[str, pd.Series] = {}
    for name in names:
        cells = _present_cells(frame[name])
        if _have_marks(cells) and _are_numbers(cells, decimal):
            plain = [_to_plain(cell, decimal) for cell in strip_cells(frame[name])]
            changed[name] = pd.to_numeric(pd.Series(plain, frame.index), errors="coerce")
    return frame.assign(**changed)


def detect_date_format(column: pd.Series, order: str | None = None) -> str | None:
    """Return the date format of a column, or ``None`` if it does not hold dates.

    ``"dates"`` stands for a column that pandas stores as dates. If day and month could be
    exchanged in every cell, ``order`` decides (``dmy`` or ``mdy``); without it the month comes
    first in dates with slashes.
    """
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "dates"
    found = _fitting_date_formats(column)
    wanted = order or ("mdy" if any(form.startswith("%m/") for form in found) else "dmy")
    first = [form for form in found if form.startswith("%d" if wanted == "dmy" else "%m")]
    return next(iter(first or found), None)


def find_ambiguous_date(column: pd.Series) -> str | None:
    """Return a cell such as ``01/02/2020`` if day and month could be exchanged in every cell."""
    is_doubtful = {"%d", "%m"} <= {form[:2] for form in _fitting_date_formats(column)}
    return _present_cells(column)[0] if is_doubtful else None


def looks_like_dates(column: pd.Series) -> bool:
    """Whether all cells look like dates, perhaps in several formats."""
    cells = [cell for cell in _present_cells(column) if not is_placeholder(cell)]
    return bool(cells) and all(_LIKE_DATE.fullmatch(cell) for cell in cells)


def _fitting_date_formats(column: pd.Series) -> list[str]:
    cells = [cell for cell in _present_cells(column) if not is_placeholder(cell)]
    if not cells:
        return []
    if all(_ISO.fullmatch(cell) for cell in cells):
        return ["ISO8601"] if _parse_dates(cells, "ISO8601") is not None else []
    if not all(len(cell) <= 30 and cell[-1:].isalnum() for cell in cells[:100]):
        return []
    forms = [form for form in DATE_FORMATS[1:] if _parse_dates(cells[:100], form) is not None]
    return [form for form in forms if _parse_dates(cells, form) is not None]


def _parse_dates(cells: list[str], form: str) -> pd.Series | None:
    plain = pd.Series([cell.removesuffix(" UTC") for cell in cells], dtype=object)
    try:
        return pd.Series(pd.to_datetime(plain, format=form, utc=True))
    except (ValueError, OverflowError):
        return None


def days_since_1970(column: pd.Series, form: str) -> np.ndarray | None:
    """Convert dates to days, NaN if missing; ``None`` if a cell does not have the format."""
    days = np.full(len(column), np.nan)
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        known = ~column.isna().to_numpy()
        dates: Any = pd.to_datetime(column[known], utc=True)
    else:
        texts = np.array(strip_cells(column), dtype=object)
        known = np.array([not is_placeholder(cell) for cell in texts], dtype=bool)
        dates = _parse_dates(texts[known].tolist(), "ISO8601" if form == "dates" else form)
        if dates is None:
            return None
    days[known] = (dates - pd.Timestamp("1970-01-01", tz="UTC")) / pd.Timedelta(days=1)
    return days


def _is_text(column: pd.Series) -> bool:
    return isinstance(column.dtype, pd.StringDtype) or column.dtype == object


def _present_cells(column: pd.Series) -> list[str]:
    """Return the cells of a text column without the missing ones; none of another column."""
    cells = strip_cells(column) if _is_text(column) else []
    return [cell for cell in cells if cell not in MISSING_MARKERS]


# Reading the text

COMPRESSED = (".gz", ".bz2", ".zip")
DELIMITERS = (",", ";", "\t", "|")
_RARE_DELIMITERS = (":", "^", "~", " ")
# Whole numbers that begin with 0; the pattern begins with it, too, as that is quicker to search
_ZEROS = re.compile(r"0(?<![^,;\t|:^~\"\s]0)\d+(?![^,;\t|:^~\"\s])")
_OTHER_FORMATS = {  # by the beginning of the file
    b"PK\3\4": "a workbook (.xlsx) or a .zip file",
    b"\xd0\xcf\x11\xe0": "an old Excel workbook (.xls)",
    b"\x1f\x8b": "a compressed file (.gz)",
    b"PAR1": "a .parquet file",
    b"ARROW1": "a .feather file",
    b"%PDF": "a PDF",
    b"\x80": "a pickle",
    b"SQLite": "a database",
    rb"\s*(?i:<!doctype|<html|<table|<\?xml)": "an HTML or XML page",
    rb'\s*(\[\s*)?\{\s*"': "JSON",
}
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


def table_suffix(path: Path) -> str:
    """Return the suffix of a table in lower case, without that of a compression.

    Examples
    --------
    >>> [table_suffix(Path(name)) for name in ("a.CSV", "a.csv.gz", "a.tsv.bz2", "a.zip")]
    ['.csv', '.csv', '.tsv', '.csv']
    """
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() or ".csv" if suffix in COMPRESSED else suffix


@contextlib.contextmanager
def open_table(path: Path) -> Iterator[IO[bytes]]:
    """Open a file of text, which may be compressed, for reading its bytes."""
    suffix = check_file(path).suffix.lower()
    with contextlib.ExitStack() as stack, wrap_parse_errors(path, suffix.removeprefix(".")):
        if suffix == ".zip":
            archive = stack.enter_context(zipfile.ZipFile(path))
            names = [n for n in archive.namelist() if not n.startswith("__MACOSX") and n[-1] != "/"]
            if len(names) != 1:
                raise DataFormatError(
                    f"{quote_path(path)} must hold one table, got {len(names)} files "
                    f"({quote_some(names)}). Unpack it, and name one of them."
                )
            yield stack.enter_context(archive.open(names[0]))
        else:
            opener: Any = {".gz": gzip.open, ".bz2": bz2.open}.get(suffix, open)
            yield stack.enter_context(opener(path, "rb"))


def max_text_bytes(path: Path) -> int:
    """Return to how many bytes a file may unpack; a small one that unpacks to more is hostile."""
    if path.suffix.lower() not in COMPRESSED:
        return MAX_TEXT_BYTES
    return min(MAX_TEXT_BYTES, max(SMALL_BYTES, MAX_EXPANSION * path.stat().st_size))


def read_text_table(
    path: Path,
    options: TableOptions,
    select_text: Callable[[Sequence[str]], Collection[str]],
    header: bool,
) -> pd.DataFrame:
    """Read the table of a text file; see :func:`glnn.data.table_files.read_frame`."""
    layout = _detect_layout(path, options)
    first = _read_first_cells(path, layout)
    cells = (*[""] * layout.has_row_names, *first, *[""] * layout.has_tail)
    names = parse_column_names(path, cells) if header else tuple(map(str, range(len(cells))))
    text = set(select_text(names))
    markers = [*MISSING_MARKERS, *options.na]

    def read(decimal: str, dtype: Any, columns: Sequence[str] | None = None) -> pd.DataFrame:
        return _read_csv(
            path,
            layout,
            header=0 if header else None,
            names=list(names),
            usecols=columns,
            index_col=False,
            na_values={name: markers for name in names if name not in text},
            decimal=decimal,
            dtype=dtype,
        )

    def read_rows(decimal: str) -> pd.DataFrame:
        frame = read(decimal, dict.fromkeys(text, "str"))
        return drop_stray_rows(frame, cells) if header else frame

    frame = read_rows(options.decimal or ".")
    others = [name for name in map(str, frame) if name not in text]
    decimal, unclear, raw = options.decimal, list[str](), frame
    has_semicolons = layout.delimiter == ";"
    if others and (layout.has_zeros or (has_semicolons and decimal is None)):
        raw = read(".", "str", others).loc[frame.index]
    if decimal is None:
        known = raw if has_semicolons else frame
        columns = {name: _number_cells(known[name]) for name in others}
        decimal, unclear = _find_decimal(columns, has_semicolons=has_semicolons)
        frame = read_rows(",") if decimal == "," else frame
    notes, renamed = [*layout.notes, *frame.attrs.get("notes", ())], frame.attrs.get("renamed", {})
    if unclear:
        how = f"with {quote(decimal)} as the decimal mark"
        listed = list_names(f"table: read numbers {how} in", unclear)
        other = "," if decimal == "." else "."
        notes.append(f"{listed}; --set decimal={other} (decimal='{other}') changes that")
    frame = parse_grouped_numbers(_unquote_formulas(frame), decimal, others)
    if layout.has_zeros:
        numeric = set(map(str, frame.select_dtypes("number")))
        candidates = [name for name in others if name in numeric]
        codes = [name for name in candidates if raw[name].str.fullmatch(r"\s*0\d+\s*").any()]
        frame = frame.assign(**{name: raw[name] for name in codes})
    if layout.is_padded:
        for name in [name for name in frame if _is_text(frame[name])]:
            frame[name] = frame[name].map(lambda c: c.strip() if isinstance(c, str) else c)
    frame = frame.rename(columns=renamed).reset_index(drop=True)
    frame.attrs["notes"] = notes
    return frame


def _find_decimal(
    columns: Mapping[str, Sequence[str]], *, has_semicolons: bool
) -> tuple[str, list[str]]:
    """Return the decimal mark of a table, and the columns that could also have the other one.

    If no column shows it, the mark is a point, or as in Europe a comma in a table with semicolons.
    """
    decimal, marks = detect_decimal(columns.values()), ",." if has_semicolons else ","
    if decimal is not None:
        return decimal, []
    unclear = [
        name
        for name, cells in columns.items()
        if _have_marks(cells, marks) and _are_numbers(cells, ".") and _are_numbers(cells, ",")
    ]
    return "," if unclear and has_semicolons else ".", unclear


def _number_cells(column: pd.Series) -> list[str]:
    """Return the cells of a column of text; those of a column of fractions have a point."""
    if not pd.api.types.is_float_dtype(column.dtype):
        return _present_cells(column)
    known = column.dropna()
    return ["0.5"] if bool((known != np.floor(known)).any()) else []


def _unquote_formulas(frame: pd.DataFrame) -> pd.DataFrame:
    """Read cells such as ``="007"``, by which spreadsheets keep text, as that text."""
    for name in frame.columns[frame.dtypes == "str"]:
        if frame[name].str.startswith('="').any():
            frame[name] = frame[name].str.replace(r'^="(.*)"$', r"\1", regex=True)
    return frame


_TOTALS = ("total", "totals", "grand total", "sum", "summe", "gesamt", "average", "mean")


def drop_stray_rows(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Leave out rows and columns that hold no data; the other rows keep their index.

    These are columns without name and cells, empty rows, rows that repeat ``names`` (the cells
    above the data), a second row of names or units, a rule of dashes, and below the data a remark
    or totals. ``attrs["notes"]`` has a line for each of these rows and for odd names, and
    ``attrs["renamed"]`` names for columns with a second name.
    """
    frame, notes = _drop_empty_and_repeated(frame, names)
    renamed, first = dict[str, str](), [""]
    if len(frame) > 1:
        first = [plain_text(cell).strip() for cell in frame.iloc[0]]
    is_rule = any(first) and all(re.fullmatch("[-:=+ ]*", cell) for cell in first)
    second = [] if is_rule else _find_second_names(frame, first)
    if second or is_rule:
        start = "table: the row below the column names is not data:"
        notes.append(list_names(start, [cell for cell in first if cell]))
        columns, frame = list(map(str, frame)), frame.iloc[1:]
        if any(not names[k].strip() for k in second):  # below merged cells
            above, joined = "", list(columns)
            for k in second:
                above = columns[k] if names[k].strip() else above
                joined[k] = f"{above} {first[k]}".strip()
            unique = zip(columns, _make_unique(joined))
            renamed = {column: name for column, name in unique if column != name}
    while len(frame) > 2 and frame.shape[1] > 2 and (stray := _describe_last_row(frame)):
        frame = frame.iloc[:-1]
        notes.append(f"table: left out the last row, {stray}")
    blank = [one for cell, one in zip(names, map(str, frame)) if not cell.strip() and one != "id"]
    cells = dict(zip(map(str, frame), names))
    frame = frame.drop(columns=[one for one in blank if frame[one].isna().all()])
    notes += describe_names(cells, frame.drop(columns=list(renamed), errors="ignore"))
    frame.attrs |= {"notes": notes, "renamed": renamed}
    return frame


def _drop_empty_and_repeated(
    frame: pd.DataFrame, names: Sequence[str]
) -> tuple[pd.DataFrame, list[str]]:
    notes, empty = [], (frame.isna() | (frame == "")).all(axis=1)
    if empty.any():
        frame = frame[~empty]
        notes.append(f"table: left out empty rows: {empty.sum():,}")
    if all(_is_text(frame[name]) for name in frame):
        alike = np.flatnonzero((frame.iloc[:, 0] == names[0]).to_numpy()).tolist()
        repeats = [k for k in alike if [*map(plain_text, frame.iloc[k])] == list(names)]
        if repeats:
            frame = frame.drop(index=frame.index[repeats])
            notes.append(f"table: left out lines that repeat the column names: {len(repeats)}")
    return frame, notes


def plain_text(cell: Any) -> str:
    """Return a cell as text, empty if it is missing."""
    return "" if pd.isna(cell) else str(cell)


def _find_second_names(frame: pd.DataFrame, first: Sequence[str]) -> list[int]:
    """Return the columns with a word in the first row above numbers.

    The list is empty unless these are all columns of numbers, and at least two.
    """
    found, rest = list[int](), frame.iloc[1:1000]
    for k, cell in enumerate(first):
        column = rest.iloc[:, k]
        if not cell or (_is_text(column) and any(map(str.isdigit, cell))):
            continue
        if not _is_text(column):
            return []
        marks = find_number_marks(column)
        if marks is not None and all(map(is_placeholder, marks.words)):
            found.append(k)
    return found if len(found) > 1 and not any(is_placeholder(first[k]) for k in found) else []


def _describe_last_row(frame: pd.DataFrame) -> str:
    """Return what the last row is if it is a remark or has totals, else an empty text."""
    first, *others = [plain_text(cell).strip() for cell in frame.iloc[-1]]
    above = frame.iloc[:-1, 0]
    if not _is_text(above):
        return ""
    if first.casefold().rstrip(":") in _TOTALS and (above != first).all():
        are_numbers = all(_MARKED.fullmatch(_simplify(cell)) for cell in others if cell)
        return f"which has totals ({quote(first)}); rename it to keep it" if are_numbers else ""
    is_remark = not any(others) and (" " in first or not first.isprintable())
    return f"a remark: {quote(first)}" if is_remark and not above.str.contains(" ").any() else ""


@dataclass(frozen=True)
class _Layout:
    """How the text of a table is stored."""

    delimiter: str
    encoding: str
    has_zeros: bool  # whether some cell is a whole number that begins with 0
    notes: tuple[str, ...] = ()
    n_titles: int = 0  # lines above the column names
    has_row_names: bool = False  # before the first column, without a name, as R writes them
    has_tail: bool = False  # whether all lines but the first end with a delimiter
    is_padded: bool = False  # whether a blank follows each delimiter


@contextlib.contextmanager
def _open_text(path: Path, layout: _Layout) -> Iterator[IO[str]]:
    with open_table(path) as file, wrap_parse_errors(path, "CSV"):
        yield io.TextIOWrapper(file, layout.encoding, newline="")


def _read_csv(path: Path, layout: _Layout, **options: Any) -> pd.DataFrame:
    """Read CSV text with pandas; a line with too many cells is an error, not a warning."""
    with _open_text(path, layout) as text, warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        lines = csv.reader(text, delimiter=layout.delimiter)
        for _ in range(layout.n_titles):  # skiprows of pandas miscounts blank lines that end in \r
            next(lines)
        try:
            frame: pd.DataFrame = pd.read_csv(
                text,
                sep=layout.delimiter,
                skipinitialspace=layout.is_padded,
                keep_default_na=False,
                low_memory=False,
                **options,
            )
            return frame
        except (pd.errors.ParserWarning, pd.errors.ParserError) as error:
            if isinstance(error, pd.errors.ParserError) and "Expected" not in str(error):
                raise
            where = _find_long_line(path, layout, options["names"])
            raise DataFormatError(
                f"{quote_path(path)} must have at most as many cells in a line as in the first, "
                f"got more{where}. Quote cells that hold delimiters."
            ) from None
        except pd.errors.EmptyDataError:
            raise DataFormatError(
                f"{quote_path(path)} must begin with a line of column names, got nothing."
            ) from None


def _find_long_line(path: Path, layout: _Layout, names: Sequence[str]) -> str:
    """Return where the first line with more cells than column names is."""
    with _open_text(path, layout) as text:
        lines = csv.reader(text, delimiter=layout.delimiter)
        n_cells = next((len(line) for line in lines if len(line) > len(names)), None)
        return f": {n_cells} instead of {len(names)} in line {lines.line_num}" if n_cells else ""


def _detect_layout(path: Path, options: TableOptions) -> _Layout:
    """Return the layout, after a scan that refuses undecodable bytes and huge lines."""
    with open_table(path) as file:
        start = file.read(_BLOCK)
    other = next((what for mark, what in _OTHER_FORMATS.items() if re.match(mark, start)), None)
    if other is not None:
        raise DataFormatError(
            f"{quote_path(path)} must be a text file, such as CSV, got {other}. Give the file the "
            "suffix of its format, or save it as CSV."
        )
    marked = (name for mark, name in _BYTE_ORDER_MARKS if start.startswith(mark))
    guess = "utf-8"
    if start.count(0) > len(start) // 4:  # text of ASCII letters in two bytes each
        guess = "utf-16-be" if start[:1] == b"\0" else "utf-16-le"
    encoding, notes = options.encoding or next(marked, guess), tuple[str, ...]()
    try:
        sample, has_zeros = _scan_text(path, encoding)
    except DataFormatError:
        if options.encoding is not None or encoding != "utf-8" or b"\0" in start:
            raise
        encoding = "cp1252"
        sample, has_zeros = _scan_text(path, encoding)
        notes = ("table: not UTF-8, read as cp1252; --set encoding=NAME names another",)
    return _detect_columns(path, options, sample, _Layout(",", encoding, has_zeros, notes))


def _detect_columns(path: Path, options: TableOptions, sample: str, layout: _Layout) -> _Layout:
    """Return the layout with the delimiter and the lines above the column names."""
    notes = layout.notes
    plain = _QUOTED.sub(lambda match: "q" if len(match[0]) > 2 else "", sample)
    all_lines = re.split(r"\r\n|\r|\n", plain)
    lines = all_lines[:_SAMPLE_LINES]
    likely = options.delimiter or _detect_delimiter("\n".join(lines[len(lines) // 2 :]))
    n_titles = count_title_rows([line.split(likely) for line in lines])
    if n_titles:
        skipped = "a line" if n_titles == 1 else f"{n_titles} lines"
        notes += (f"table: left out {skipped} above the column names",)
    lines = [line for line in lines[n_titles:] if line.strip()]
    likely = _detect_delimiter("\n".join(lines))
    is_tabs = table_suffix(path) == ".tsv" and "\t" in sample
    found = options.delimiter or ("\t" if is_tabs else likely)
    if options.delimiter and lines and found not in lines[0] and likely in lines[0]:
        raise DataFormatError(
            f"{quote_path(path)} must have {quote(found)} between its columns, as the "
            f"option delimiter says, got {quote(likely)}. Leave the option out."
        )
    counts = [line.count(found) for line in lines]
    is_short = len(lines) > 1 and {*counts[1:]} == {counts[0] + 1}  # the line of names
    has_tail = is_short and all(line.endswith(found) for line in lines[1:])
    first_cells = {line.split(found)[0] for line in lines}
    has_row_names = is_short and not has_tail and len(first_cells) == len(lines) > 2
    if has_row_names:
        notes += ("table: the first column has no name; its cells are read as ids",)
    cut = [line for line in all_lines[n_titles:-1] if 0 < line.count(found) < counts[0]]
    if cut and counts[0] in counts[1:]:
        listed = list_names("table: lines with fewer cells than names are filled with gaps:", cut)
        notes += (f"{listed}; check for line breaks in cells without quotes",)
    filled = [f"{line} " for line in lines if re.search(r"\w", line)]
    is_padded = found in "".join(filled) and found != " "
    is_padded &= all(line.count(f"{found} ") == line.count(found) for line in filled)
    return dataclasses.replace(
        layout,
        delimiter=found,
        notes=notes,
        n_titles=n_titles,
        has_row_names=has_row_names,
        has_tail=has_tail,
        is_padded=is_padded,
    )


def count_title_rows(rows: Sequence[Sequence[str]]) -> int:
    """Count the rows above the column names: a title or remarks in their first cell, and blanks."""
    width = max(map(len, rows))
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
    is_remark = [(row[0][:1] == "#" and len(row) < width) or row[0] == "sep=" for row in rows]
    is_names = [n > 1 and 2 * n >= len(row) for n, row in zip(filled, rows)]
    n_titles = next((k for k, names in enumerate(is_names) if names and not is_remark[k]), 0)
    is_title = n_titles > 0 and bool(rows[0][0].strip())
    is_title &= width > 2 or is_remark[0] or len(rows[0]) < 2
    has_names = not any(re.match(r"[+-]?[\d.]", cell.strip()) for cell in rows[n_titles])
    return n_titles if is_title and has_names else 0


def _scan_text(path: Path, encoding: str) -> tuple[str, bool]:
    """Decode the file block by block to check it.

    Returns its first block, and whether some cell may be a whole number that begins with 0.
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    sample, n_open, n_bytes, has_zeros = "", 0, 0, False
    most_bytes = max_text_bytes(path)
    with open_table(path) as file:
        while True:
            block = file.read(_BLOCK)
            try:
                text = decoder.decode(block, final=not block)
                if "\0" in text:
                    raise UnicodeDecodeError(encoding, block, block.find(0), 0, "NUL")
            except UnicodeError as error:
                place = n_bytes + int(getattr(error, "start", 0))
                raise DataFormatError(
                    f"{quote_path(path)} must be {encoding.upper()} text, got other bytes at byte "
                    f"{place}. Name its encoding with --set encoding=NAME (encoding='cp1252' for "
                    "many spreadsheets), or save it as UTF-8."
                ) from None
            has_zeros = has_zeros or _ZEROS.search(text) is not None
            if not block:
                return sample, has_zeros
            sample, n_bytes = sample or text, n_bytes + len(block)
            end = max(text.rfind("\n"), text.rfind("\r"))
            n_open = n_open + len(text) if end < 0 else len(text) - end - 1
            if n_open > MAX_LINE or n_bytes > most_bytes:
                raise DataFormatError(
                    f"{quote_path(path)} must have lines of at most {MAX_LINE:,} characters, and "
                    f"unpack to at most {most_bytes:,} bytes."
                )


def _detect_delimiter(sample: str) -> str:
    """Return the mark that is equally frequent in all lines, else most frequent in line 1.

    Rarer marks, such as colons and blanks, count only where the first line has no usual one.
    """
    lines = [line for line in sample.splitlines() if line.strip()]
    counts = {mark: [line.count(mark) for line in lines] for mark in DELIMITERS}
    even = {mark: n[0] for mark, n in counts.items() if n and n[0] and len(set(n[:-1])) <= 1}
    found = even or {mark: n[0] for mark, n in counts.items() if n and n[0]}
    if not found and len(lines) > 1:
        rare = {mark: {line.count(mark) for line in lines[1:]} for mark in _RARE_DELIMITERS}
        found = {  # without the name of the row names, as R writes tables
            mark: max(n)
            for mark, n in rare.items()
            if len(n) == 1 and 0 < max(n) - lines[0].count(mark) + 1 <= 2 and max(n)
        }
    return max(found, key=lambda mark: found[mark], default=",")


def read_first_line(path: Path, options: TableOptions) -> tuple[str, ...]:
    """Return the cells of the first line that is not empty."""
    return _read_first_cells(path, _detect_layout(path, options))


def _read_first_cells(path: Path, layout: _Layout) -> tuple[str, ...]:
    frame = _read_csv(path, layout, nrows=1, dtype="str", header=None)
    row = map(plain_text, frame.iloc[0])
    cells = tuple(cell.strip() if layout.is_padded else cell for cell in row)
    if len(cells) > MAX_COLUMNS:
        raise DataFormatError(
            f"{quote_path(path)} must have at most {MAX_COLUMNS:,} columns, got {len(cells):,}."
        )
    return cells


def parse_column_names(path: Path, cells: Sequence[object]) -> tuple[str, ...]:
    """Return a unique name for each column.

    A first column without a name is ``id``, and others are numbered; repeated names, too.
    """
    names = list(map(plain_text, cells))
    if names and not names[0].strip() and "id" not in names:
        names[0] = "id"
    blank = [place for place, name in enumerate(names) if not name.strip()]
    if 2 * len(blank) > len(names) or not names:
        raise DataFormatError(
            f"{quote_path(path)} must name every column in its first line, got none for column "
            f"{blank[0] + 1 if blank else 1}. Name it, or remove the column."
        )
    for place in blank:
        names[place] = f"column {place + 1}"
    return tuple(_make_unique(names))


def _make_unique(names: Iterable[str]) -> list[str]:
    """Return the names, with a number behind those that occur again."""
    found: dict[str, int] = {}  # each name, and the last number that was added to it
    for name in names:
        unique = name
        while unique in found:
            found[name] += 1
            unique = f"{name}.{found[name]}"
        found[unique] = 1
    return list(found)


def describe_names(cells: Mapping[str, str], frame: pd.DataFrame) -> Iterator[str]:
    """Yield sentences on columns that got another name, and on names that look like data.

    ``cells`` are those above the columns; data are fractions, and cells that occur below again.
    """
    names, top = list(map(str, frame)), frame.head(1000)
    n_data = sum(
        re.fullmatch(r"[+-]?\d+\.\d+", cells[name]) is not None
        or bool((top[name].astype(str).str.strip() == cells[name]).any())
        for name in names[:20]
    )
    if 2 * n_data >= min(len(names), 20) > 0:
        yield list_names(
            "table: if the first line is data, add one of names above it; it has", names
        )
    new = [name for name in names if name not in (cells[name], "id")]
    if new:
        yield list_names("table: columns without a name of their own are called", new)


def list_names(start: str, names: Sequence[str]) -> str:
    """Return a sentence with the first three names."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{start} {', '.join(map(quote, names[:3]))}{more}"


def find_column(
    where: str, names: Sequence[str], wanted: str | None, usual: str | None, what: str
) -> str | None:
    """Return the wanted column; if none is given, the usual one if the table has it.

    If no name is the same, blanks around it and, for the usual one, the case do not count.
    """
    if wanted is None:
        near = (name for name in names if name.strip().casefold() == usual)
        return usual if usual in names else next(near, None)
    if wanted not in names:
        alike = [name for name in names if name.strip() == wanted.strip()]
        if len(alike) == 1:
            return alike[0]
        raise InputError(
            f"{what} must be a column of {where}, got {quote(wanted)}.{list_columns(names)}"
            f"{did_you_mean(wanted, names)}"
        )
    return wanted


def list_columns(names: Sequence[str]) -> str:
    """Return a sentence with the first columns of a table."""
    return f" Its columns are {quote_some(names, 8)}."
