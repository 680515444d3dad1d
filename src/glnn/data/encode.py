"""Encoding the columns of a table as numbers.

A column stays as it is, is one-hot encoded, is replaced by the frequency of its values, becomes
days, or is left out. :class:`TableEncoder` is fitted once, stored as JSON and applied to new rows.
"""

import dataclasses
import re
import shlex
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn.data.files import quote, quote_some
from glnn.data.node_data import to_float32
from glnn.data.table_text import (
    DATE_FORMATS,
    DEFAULT_OPTIONS,
    MISSING_MARKERS,
    NO_MARKS,
    NumberMarks,
    TableOptions,
    check_cells,
    days_since_1970,
    detect_date_format,
    empty_cells,
    find_ambiguous_date,
    find_column,
    find_number_marks,
    is_placeholder,
    list_names,
    looks_like_dates,
    merge_spellings,
    strip_cells,
    strip_marks,
    to_numbers,
    to_text,
)
from glnn.exceptions import DataFormatError, InputError

# One column

MAX_CATEGORIES = 100  # "onehot" refuses columns with more different values
AUTO_CATEGORIES = 30  # "auto" encodes columns with more different values by frequency

_FLOAT32_STEPS = 2**14  # a range so many times smaller than its numbers may lose them in float32
_EXACT = 2**53  # larger whole numbers are not exact as floats
_OWN_TEXTS = 10  # up to so many texts may all be different and still be categories
_MARKED_SHARE, _MARKED_GAPS = 0.05, 5  # "auto" marks gaps from this share and number on

_ID_NAME = re.compile(
    r"(.*[\s_.-])?([iI][dD]|[uU][uU][iI][dD]|[gG][uU][iI][dD])|.*[a-z]I[dD]|__index_level_0__"
)
_ROW_NUMBER_NAME = re.compile(
    r"((row|line|record|obs|observation|s|sl)?|(.*[\s_.#-]))[\s_.#-]*"
    r"(nr|no|num|number|index|idx|#)\.?|row|rownames?|unnamed: \d+",
    re.IGNORECASE,
)
_CODE_NAME = re.compile(
    r"(.*[\s_.-])?((zip|post|postal)[\s_-]?code|zip|plz|fips|(tele)?phone|ssn|isbn|ean|gtin)",
    re.IGNORECASE,
)

Kind = Literal["number", "category", "frequency", "date", "left out"]


@dataclass(frozen=True)
class ColumnCode:
    """How one column is encoded.

    ``number`` keeps the numbers; ``category`` is one-hot over ``values``; ``frequency`` is the
    share of training rows with the same value; ``date`` is days since ``origin``.
    """

    name: str
    kind: Kind = "number"
    values: tuple[str, ...] = ()  # categories, or the values that occur in more than one row
    shares: tuple[float, ...] = ()  # share of training rows for each of the values (frequency)
    rest: float = 0.0  # share for any other value: that of a single row
    fill: float | None = None  # replaces missing cells; None: they are refused
    marks_gaps: bool = False  # whether a second column marks the missing cells
    n_gaps: int = 0  # number of missing cells in the training column
    form: str = ""  # format of the dates
    origin: float = 0.0  # is subtracted: the first date, in days since 1970, or a large number
    marks: NumberMarks = NO_MARKS  # what surrounds numbers
    na: tuple[str, ...] = ()  # cells that the user calls missing
    clips: bool = False  # infinite and too large numbers are missing
    spellings: Mapping[str, str] = field(default_factory=dict)  # other spellings of the values
    note: str = ""  # why it is left out, or what is doubtful and the option that changes it

    def describe(self) -> str:
        """Return in a few words what was done with the column."""
        if self.kind == "left out":
            return f"left out: {self.note.split(';')[0]}"
        first = np.datetime64("1970-01-01") + np.timedelta64(int(self.origin // 1), "D")
        words = {
            "number": "number"
            + (f", without {quote(self.marks.unit)}" if self.marks.unit else "")
            + (f", less {self.origin:.10g}" if self.origin else ""),
            "category": f"category: {len(self.values)} values, one column each",
            "frequency": "text: share of the rows with the same value",
            "date": f"date: days since {first}",
        }[self.kind]
        if not self.n_gaps:
            return words
        gaps = f"{words}; {self.n_gaps:,} {'gap' if self.n_gaps == 1 else 'gaps'}"
        if self.fill is None:
            return gaps
        filled = f" {self.fill:g}" if self.kind == "number" else ""
        marked = " and marked in a second column" if self.marks_gaps else ""
        return f"{gaps} filled with the median{filled}{marked}"

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        if self.kind == "left out":
            return ()
        if self.kind == "category":
            return tuple(f"{self.name}={value}" for value in self.values)
        return (self.name, f"{self.name} is missing") if self.marks_gaps else (self.name,)

    def encode(self, column: pd.Series, where: str, first_row: int) -> np.ndarray:
        """Encode a column as float32, rows x encoded columns.

        The error for a cell that cannot be encoded names its row and what to do about it.
        """
        if self.kind == "category":
            cells = np.array(self.texts(column), dtype=object)
            return to_float32(cells[:, None] == np.array(self.values, dtype=object))
        if self.kind == "frequency":
            share = dict(zip(self.values, self.shares)) | {"": 0.0}
            shares = [share.get(cell, self.rest) for cell in self.texts(column)]
            return to_float32(np.array(shares)[:, None])
        numbers = self.parse(column)
        if numbers is None:  # find the first bad cell: every longer beginning is bad too
            beginnings = range(1, len(column) + 1)
            place = bisect_left(beginnings, True, key=lambda k: self.parse(column.iloc[:k]) is None)
            raise self._cell_error(where, column, place, first_row)
        narrow = to_float32(numbers - self.origin)
        narrow = np.where(np.isinf(narrow) & self.clips, np.float32(np.nan), narrow)
        gaps = np.isnan(narrow)
        bad = np.flatnonzero(np.isinf(narrow) | (gaps & (self.fill is None)))
        if bad.size:
            raise self._cell_error(where, column, int(bad[0]), first_row)
        whole = np.where(gaps, np.float32(self.fill or 0), narrow)
        return np.stack([whole, to_float32(gaps)], axis=1) if self.marks_gaps else whole[:, None]

    def texts(self, column: pd.Series) -> list[str]:
        """Return the cells as text in their most frequent spelling, empty if missing."""
        cells = strip_cells(empty_cells(column, self.na))
        return ["" if c in MISSING_MARKERS else self.spellings.get(c, c) for c in cells]

    def parse(self, column: pd.Series) -> np.ndarray | None:
        """Return numbers or days since 1970, NaN if missing; ``None`` if a cell is neither."""
        column = empty_cells(column, self.na)
        if self.kind == "date":
            return days_since_1970(column, self.form)
        return to_numbers(strip_marks(column, self.marks))

    def _cell_error(
        self, where: str, column: pd.Series, place: int, first_row: int
    ) -> DataFormatError:
        """Return the error for a bad cell of new rows; it does not advise to drop the column."""
        cell = strip_cells(column)[place]
        must, advice = "finite numbers", "Write a number there"
        if self.kind == "date":
            form = self.form if self.form in DATE_FORMATS[1:] else "%Y-%m-%d"
            form = form.replace("%d", "DD").replace("%m", "MM").replace("%Y", "YYYY")
            must, advice = f"dates like those of training, {form}", "Write it that way"
        if cell in MISSING_MARKERS:
            advice = (
                "Training had no gap there: fill the cell, or fit again with missing='median' "
                "(--missing median), which fills gaps of new rows, too"
            )
        elif self.fill is not None:
            advice += ", or leave the cell empty: gaps get the median of training"
        return DataFormatError(
            f"column {quote(self.name)} of {where} must hold {must}, got "
            f"{quote(cell) if cell else 'an empty cell'} in row {first_row + place + 1}. {advice}."
        )


def is_named_like_id(name: str) -> bool:
    """Whether a column is named like ids, such as ``customer_id`` or ``orderId``."""
    return _ID_NAME.fullmatch(name.strip()) is not None


def is_unique(column: pd.Series) -> bool:
    """Whether every row has its own value."""
    return bool(column.is_unique and not column.isna().any() and not (column == "").any())


def fit_column(where: str, column: pd.Series, name: str, options: TableOptions) -> ColumnCode:
    """Choose how a column is encoded; its kind is ``left out`` if it has no information.

    ``options.kinds`` may decide; otherwise it is guessed, and ``note`` says what is doubtful.
    """
    na, wanted = tuple(options.na), options.kinds.get(name)
    column, code = empty_cells(column, na), ColumnCode(name, na=na)
    is_categorical = isinstance(column.dtype, pd.CategoricalDtype)
    numbers = None if is_categorical else to_numbers(column)
    is_guessed = wanted is None and options.encode == "auto" and numbers is not None
    if is_guessed:
        code, numbers = _empty_sentinels(code, numbers)
        column = empty_cells(column, code.na)
    why = "" if wanted or options.features else _why_left_out(name, column, numbers)
    if why:
        return _leave_out(code, f"{why}; {_as_option(name, 'number')} keeps it")
    change = f"{_as_option(name, 'number')} changes that"
    if is_guessed and _are_compact_dates(column, numbers):
        code = dataclasses.replace(code, note=f"read as dates YYYYMMDD; {change}")
        return _fit_dates(where, column, code, "%Y%m%d", options)
    if is_guessed and _is_code(name, column, numbers):
        wanted = "category"
        code = dataclasses.replace(code, note=f"read as codes, not as numbers; {change}")
    if wanted == "category" or is_categorical:
        return _fit_text(where, column, code, options)
    if numbers is None or wanted in ("dmy", "mdy"):
        return _fit_cells(where, column, code, options)
    return _fit_numbers(code, numbers, options, where)


def _fit_cells(
    where: str, column: pd.Series, code: ColumnCode, options: TableOptions
) -> ColumnCode:
    """Choose how a column of text is encoded, which may hold dates, or numbers with marks."""
    name, wanted = code.name, options.kinds.get(code.name)
    form = None if wanted == "number" else detect_date_format(column, wanted)
    if form is not None and options.encode != "error":
        return _fit_dates(where, column, code, form, options)
    if options.encode == "auto" or wanted == "number":
        marks = find_number_marks(column, force=wanted == "number") or NO_MARKS
        numbers = to_numbers(strip_marks(column, marks))
        if numbers is not None:
            note = _describe_marks(column, numbers, name, marks)
            code = dataclasses.replace(code, marks=marks, note=note)
            return _fit_numbers(code, numbers, options, where)
    if options.encode == "auto" and wanted is None and looks_like_dates(column):
        keep = f"write them as 2020-01-31; {_as_option(name, 'category')} keeps the text"
        return _leave_out(code, f"dates in several or unknown formats: {keep}")
    if options.encode == "auto":
        code = dataclasses.replace(code, note=_describe_half_numbers(column, name))
    if options.encode != "error" and wanted is None:
        return _fit_text(where, column, code, options)
    texts = to_text(column)
    alone = (to_numbers(pd.Series([text], dtype=object)) for text in texts)
    row = next((k for k, number in enumerate(alone) if number is None), 0)
    what = "text: encode it" if form is None else "dates: turn them into numbers"
    raise DataFormatError(
        f"column {quote(name)} of {where} must hold finite numbers, got {quote(texts[row])} in "
        f"row {row + 1}. It holds {what} with encode='auto' (the default), name it with --id or "
        f"--label if it is one, or leave it out with drop (--drop {quote(name)})."
    )


def _as_option(name: str, kind: str) -> str:
    return f"--as {shlex.quote(f'{name}={kind}')}"


def _leave_out(code: ColumnCode, why: str) -> ColumnCode:
    return dataclasses.replace(code, kind="left out", note=why)


def _why_left_out(name: str, column: pd.Series, numbers: np.ndarray | None) -> str:
    """Return why a column is not a feature: it holds ids or row numbers; otherwise empty text."""
    if is_named_like_id(name) and is_unique(column):
        return "another id in every row"
    if numbers is None or len(numbers) < 2 or not np.isfinite(numbers).all():
        return ""
    is_long = len(numbers) >= 10
    if is_long and (abs(numbers) > _EXACT).all():
        return "another long number in every row" if is_unique(column) else ""
    counts = is_long and numbers[0] in (0, 1) and bool((np.diff(numbers) == 1).all())
    if not counts and _ROW_NUMBER_NAME.fullmatch(name):  # whole numbers of that name
        counts = bool((numbers % 1 == 0).all()) and len(np.unique(numbers)) == len(numbers)
    return "numbers the rows" if counts else ""


def _is_code(name: str, column: pd.Series, numbers: Any) -> bool:
    """Whether whole numbers are codes: by the name, such as a zip code, or by zeros in front."""
    if (np.floor(numbers) < numbers).any():
        return False
    cells = [] if column.dtype.kind in "iufb" else strip_cells(column)
    return bool(_CODE_NAME.fullmatch(name)) or any(re.fullmatch(r"0\d+", c) for c in cells)


def _empty_sentinels(code: ColumnCode, numbers: Any) -> tuple[ColumnCode, np.ndarray]:
    """Read -999 and the like as gaps if they are repeated and no other number is negative."""
    lowest = np.nanmin(numbers, initial=0)
    is_lowest, is_odd = numbers == lowest, lowest in (-99, -999, -9999, -99999)
    if not is_odd or is_lowest.sum() < 2 or (numbers[~is_lowest] < 0).any():
        return code, numbers
    keep = f"{_as_option(code.name, 'number')} keeps them"
    note = f"{is_lowest.sum():,} cells of {lowest:.0f} read as gaps; {keep}"
    code = dataclasses.replace(code, na=(*code.na, f"{lowest:.0f}"), note=note)
    return code, np.where(is_lowest, np.nan, numbers)


def _are_compact_dates(column: pd.Series, numbers: Any) -> bool:
    """Whether all numbers are dates of 1900 to 2100, such as 20200131."""
    known = np.unique(numbers[~np.isnan(numbers)])
    if len(known) < 2 or known[0] < 19000100 or known[-1] > 21010000 or (known % 1).any():
        return False
    return days_since_1970(column, "%Y%m%d") is not None


def _describe_half_numbers(column: pd.Series, name: str) -> str:
    """Return a note on a column that is read as text although most of its cells are numbers."""
    words = (find_number_marks(column, force=True) or NO_MARKS).words
    counts = Counter(strip_cells(column))
    n_words = sum(counts[word] for word in words)
    if not n_words or 2 * n_words > counts.total() - counts[""]:
        return ""
    listed = list_names("read as text because of", words)
    advice = f"{_as_option(name, 'number')} reads those cells as gaps"
    return f"{listed}, though most cells are numbers; {advice}"


def _describe_marks(column: pd.Series, numbers: np.ndarray, name: str, marks: NumberMarks) -> str:
    """Return a note on cells of a column of numbers that are not plain numbers."""
    notes, cells = [], strip_cells(column)
    if marks.words:
        n_words = sum(cell in marks.words for cell in cells)
        said = "1 cell read as a gap" if n_words == 1 else f"{n_words:,} cells read as gaps"
        notes.append(list_names(f"{said} among numbers:", marks.words))
    if marks.unit or marks.decimal:
        odd = (k for k, c in enumerate(cells) if not re.fullmatch(r"\d*|\d+\.\d+", c))
        row = next((k for k in odd if not np.isnan(numbers[k])), 0)
        notes.append(f"cells such as {quote(cells[row])} read as {numbers[row]:.10g}")
    known = " ".join(f"--na {shlex.quote(word)}" for word in marks.words[:3])
    confirm = f", {known} confirms it" if known and all(map(is_placeholder, marks.words)) else ""
    as_text = f"{_as_option(name, 'category')} reads the column as text"
    return f"{', '.join(notes)}; {as_text}{confirm}"


def _fit_dates(
    where: str, column: pd.Series, code: ColumnCode, form: str, options: TableOptions
) -> ColumnCode:
    days = days_since_1970(column, form)
    doubt = None if code.name in options.kinds else find_ambiguous_date(column)
    if doubt is not None:
        first, other = ("month", "dmy") if form.startswith("%m") else ("day", "mdy")
        change = f"{_as_option(code.name, other)} changes that"
        note = f"the {first} comes first in dates such as {quote(doubt)}; {change}"
        code = dataclasses.replace(code, note=note)
    assert days is not None  # the form was found in these cells
    origin = float(np.nanmin(days)) if not np.isnan(days).all() else 0.0
    code = dataclasses.replace(code, kind="date", form=form, origin=origin)
    return _fit_numbers(code, days - origin, options, where)


def _fit_numbers(
    code: ColumnCode, numbers: np.ndarray, options: TableOptions, where: str
) -> ColumnCode:
    narrow = to_float32(numbers)
    bad, gaps = np.isinf(narrow), np.isnan(narrow)
    if options.missing == "error" and (bad | gaps).any():
        row = int(np.flatnonzero(bad if bad.any() else gaps)[0])
        got, advice = quote(numbers[row]), "Correct it"
        if not bad.any():
            got = "an empty cell"
            advice = "Fill gaps with missing='median' or 'indicator' (--missing median)"
        raise DataFormatError(
            f"column {quote(code.name)} of {where} must hold finite numbers, got {got} in row "
            f"{row + 1}. {advice}, or leave the column out with drop (--drop {quote(code.name)})."
        )
    if bad.any():
        said = f"{bad.sum():,} infinite or too large numbers read as gaps"
        advice = f"--drop {shlex.quote(code.name)} leaves the column out"
        code = dataclasses.replace(code, note=f"{said}; {advice}", clips=True)
        gaps |= bad
    n_gaps, known = int(gaps.sum()), numbers[~gaps]
    is_narrow = known.size > 0 and np.ptp(known) * _FLOAT32_STEPS < abs(known).max()
    if is_narrow and len(np.unique(narrow[~gaps])) < len(np.unique(known)):
        code = dataclasses.replace(code, origin=float(known.min()))
        known = known - code.origin
    is_often = n_gaps >= max(_MARKED_GAPS, _MARKED_SHARE * len(numbers))
    marks = bool(n_gaps) and options.missing == "indicator"
    marks |= is_often and options.missing == "auto"
    if not known.size and numbers.size:
        return _leave_out(code, "no value")
    if options.drop_constant and known.size and (known == known[0]).all() and not marks:
        return _leave_out(code, "one value only")
    fill = None if options.missing == "error" else float(np.float32(np.median(known)))
    return dataclasses.replace(code, fill=fill, marks_gaps=marks, n_gaps=n_gaps)


def _fit_text(where: str, column: pd.Series, code: ColumnCode, options: TableOptions) -> ColumnCode:
    name, is_auto = code.name, options.encode == "auto" or code.name in options.kinds
    counts = Counter(code.texts(column))
    merged = merge_spellings({v: n for v, n in counts.items() if v and name not in options.kinds})
    if merged:
        said = ", ".join(f"{quote(a)} as {quote(b)}" for a, b in [*merged.items()][:3])
        note = f"read {said}; {_as_option(name, 'category')} keeps other spellings apart"
        code = dataclasses.replace(code, spellings=merged, note=note)
        counts = Counter(code.texts(column))
    n_rows, n_gaps = counts.total(), counts.pop("", 0)
    code = dataclasses.replace(code, n_gaps=n_gaps)
    if not counts:
        return _leave_out(code, "no value")
    is_many = len(counts) > AUTO_CATEGORIES
    is_own = len(counts) > _OWN_TEXTS and len(counts) * (1 + is_many) >= n_rows - n_gaps
    can_keep = len(counts) <= MAX_CATEGORIES
    keep = f"; {_as_option(name, 'category')} keeps it" if can_keep else ""
    if is_own and is_auto and name not in options.kinds:
        return _leave_out(code, f"most rows have their own text{keep}")
    if is_auto and len(counts) > (MAX_CATEGORIES if name in options.kinds else AUTO_CATEGORIES):
        if options.drop_constant and len({*counts.values()}) == 1 and not n_gaps:
            return _leave_out(code, f"every text occurs equally often{keep}")
        often = tuple(sorted(value for value, count in counts.items() if count > 1))
        shares = tuple(counts[value] / n_rows for value in often)
        return dataclasses.replace(
            code, kind="frequency", values=often, shares=shares, rest=1 / n_rows
        )
    if len(counts) > MAX_CATEGORIES:
        raise DataFormatError(
            f"column {quote(name)} of {where} must have at most {MAX_CATEGORIES} different values "
            f"to be one-hot encoded, got {len(counts):,}. Use encode='auto' (the default), which "
            f"counts how often a value occurs, or leave it out with drop (--drop {quote(name)})."
        )
    if options.drop_constant and len(counts) + bool(n_gaps) < 2:
        return _leave_out(code, "one value only")
    return dataclasses.replace(code, kind="category", values=tuple(sorted(counts)))


# All columns of a table


def repeats_labels(column: pd.Series, labels: Sequence[str]) -> bool:
    """Whether a feature gives the label away: the same cells, or a value for each class.

    The latter counts only if both have gaps, in the same rows.
    """
    n_gaps = labels.count("")
    if len(labels) != len(column) or column.isna().sum() + (column == "").sum() != n_gaps:
        return False

    def agree(n_rows: int) -> bool:
        cells, known = strip_cells(column.head(n_rows)), [*labels[:n_rows]]
        pairs = {*zip(cells, known)}
        is_paired = n_gaps > 0 and len(pairs) == len({*cells}) == len({*known})
        return cells == known or (is_paired and all((a == "") == (b == "") for a, b in pairs))

    return agree(100) and agree(len(labels)) and len({*labels} - {""}) > 1


_BATCH_CELLS = 4_000_000  # bounds the size of a dense block


@dataclass(frozen=True)
class TableEncoder:
    """How the feature columns of a table are encoded as numbers."""

    codes: tuple[ColumnCode, ...]  # one for each column, in the order of the table

    @classmethod
    def fit(
        cls,
        where: str,
        names: Sequence[str],
        column: Callable[[str], pd.Series],
        options: TableOptions,
        labels: Sequence[str] = (),
    ) -> "TableEncoder":
        """Fit an encoder to the columns ``names``; ``where`` names the table in messages.

        Columns that repeat the ``labels``, empty text where unknown, are left out.
        """
        codes: list[ColumnCode] = []
        refused: dict[str, DataFormatError] = {}
        for name in names:
            is_named = options.features or name in options.kinds or options.encode != "auto"
            try:
                check_cells(where, name, column(name))
                if not is_named and repeats_labels(column(name), labels):
                    keep = f"{_as_option(name, 'category')} keeps it"
                    codes.append(_leave_out(ColumnCode(name), f"the same as the label; {keep}"))
                else:
                    codes.append(fit_column(where, column(name), name, options))
            except DataFormatError as error:
                refused[name] = error
        if refused:
            first, *others = refused
            also = list_names(" Other columns that cannot be used as they are:", others)
            raise DataFormatError(f"{refused[first]}{also}." if others else str(refused[first]))
        if not cls(tuple(codes)).names:
            why = "".join(f": {quote(c.name)} is left out, as {c.note}" for c in codes[:1])
            raise InputError(f"{where} must have an informative feature column, got none{why}.")
        return cls(tuple(codes))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the table columns that are used."""
        return tuple(code.name for code in self.codes if code.kind != "left out")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        return tuple(name for code in self.codes for name in code.feature_names)

    def transform(self, frame: pd.DataFrame, where: str, first_row: int = 0) -> sp.csr_matrix:
        """Encode the rows of a table as float32 features.

        ``frame`` must have the columns of the training table; other columns are ignored.
        ``where`` and ``first_row`` (number of the first row) are for messages.
        """
        present = set(map(str, frame.columns))
        absent = [name for name in self.names if name not in present]
        if absent:
            raise InputError(
                f"{where} must have the columns of the training data, got none named "
                f"{quote_some(absent)}."
            )
        frame = frame.set_axis(list(map(str, frame.columns)), axis=1)
        size = max(1, _BATCH_CELLS // max(1, len(self.feature_names)))
        blocks = [sp.csr_matrix((0, len(self.feature_names)), dtype=np.float32)]
        for start in range(0, len(frame), size):
            rows, first = frame.iloc[start : start + size], first_row + start
            used = (code for code in self.codes if code.kind != "left out")
            columns = [code.encode(rows[code.name], where, first) for code in used]
            blocks.append(sp.csr_matrix(np.concatenate(columns, axis=1)))
        return sp.csr_matrix(sp.vstack(blocks, format="csr"))

    def describe(self) -> list[tuple[str, str]]:
        """Return the name of each column and what was done with it."""
        return [(code.name, code.describe()) for code in self.codes]

    def notes(self) -> Iterator[str]:
        """Yield sentences on columns that are left out, and on doubtful ones."""
        left_out: dict[str, list[str]] = {}
        for code in self.codes:
            if code.kind == "left out":
                left_out.setdefault(code.note, []).append(code.name)
            elif code.note:
                yield f"{code.name}: {code.note}"
        for why, names in left_out.items():
            yield f"{list_names('features: left out', names)}: {why}"

    def notes_on_new(self, frame: pd.DataFrame, known: Sequence[str | None]) -> Iterator[str]:
        """Yield sentences on how a new table was read: ambiguous cells, unused columns and values.

        ``known`` are columns of ids, labels and split, which are not mentioned.
        """
        yield from frame.attrs.get("notes", ())
        used = {*(code.name for code in self.codes), *known}
        unused = [str(name) for name in frame if str(name) not in used]
        if unused:
            yield list_names("left out columns", unused)
        for code in (code for code in self.codes if code.kind == "category"):
            unseen = sorted(set(code.texts(frame[code.name])) - {"", *code.values})
            if unseen:
                what = f"features: no column for new values of {quote(code.name)}:"
                yield list_names(what, unseen)


# Frames of pandas


def encode_frame(
    frame: pd.DataFrame, *, labels: Sequence[str] = (), **options: Any
) -> tuple[pd.DataFrame, TableEncoder]:
    """Encode the text, dates and missing cells of a frame as numbers.

    All columns are features, unless they repeat the ``labels`` of the rows. ``options`` are fields
    of :class:`TableOptions` by name, such as ``missing="indicator"``. Returns the encoded frame
    with the same index, and the encoder for new rows.

    Examples
    --------
    >>> people = pd.DataFrame({"age": [30, None], "job": ["cook", "pilot"]}, index=["ann", "bob"])
    >>> numbers, encoder = encode_frame(people)
    >>> numbers
          age  job=cook  job=pilot
    ann  30.0       1.0        0.0
    bob  30.0       0.0        1.0
    """
    named = _check_distinct(frame).set_axis(list(map(str, frame.columns)), axis=1)
    how = DEFAULT_OPTIONS.replace(**options)
    columns = list(map(str, named)), named.__getitem__
    for name in how.kinds:
        find_column("X", columns[0], name, None, "a column that encode names")
    encoder = TableEncoder.fit("the frame", *columns, how, labels)
    return transform_frame(frame, encoder), encoder


def _check_distinct(frame: pd.DataFrame) -> pd.DataFrame:
    names = pd.Index(map(str, frame.columns))
    if not names.is_unique:
        raise InputError(
            f"columns of X must have different names, got {quote(names[names.duplicated()][0])} "
            "twice. Rename one of them."
        )
    return frame


def is_frame(x: Any) -> bool:
    """Whether a value is a DataFrame of pandas."""
    return isinstance(x, pd.DataFrame)


def warn_of_notes(encoder: TableEncoder) -> None:
    """Warn of columns that are left out or doubtful, in words for Python."""
    notes = "; ".join(encoder.notes())
    if notes:
        advice = "In Python, encode={'zip': 'number'} does the same as --as zip=number"
        warnings.warn(f"{notes}. {advice}.", stacklevel=3)


def transform_frame(frame: pd.DataFrame, encoder: TableEncoder) -> pd.DataFrame:
    """Encode new rows with an encoder of :func:`encode_frame`."""
    values = encoder.transform(frame, "the frame").toarray()
    return pd.DataFrame(values, index=frame.index, columns=list(encoder.feature_names))


def to_numeric_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert the columns of a frame to numbers; raise on text, dates and missing cells.

    Columns with a numeric NumPy dtype stay as they are; numbers of other dtypes, such as the
    nullable integers of pandas, become float64.
    """
    frame = _check_distinct(frame).copy(deep=False)
    for name in frame.columns:
        column = frame[name]
        if isinstance(column.dtype, np.dtype) and column.dtype.kind in "fiub":
            continue
        numbers = to_numbers(column)
        if numbers is None:
            known = column.dropna()
            cell = quote(known.iloc[0]) if len(known) else "nothing"
            is_date = pd.api.types.is_datetime64_any_dtype(column.dtype)
            raise InputError(
                f"X must hold numbers, got {'dates' if is_date else cell} in column "
                f"{quote(name)}. GLNNClassifier(encode='auto') takes it; otherwise encode it "
                "first, with glnn.data.encode_frame(X) or scikit-learn's OneHotEncoder."
            )
        frame[name] = numbers
    gaps = [name for name in frame.columns if frame[name].isna().any()]
    if gaps:
        listed = list_names("X must be finite, got NaN or missing values in", gaps)
        raise InputError(
            f"{listed}. GLNNClassifier(encode='auto') takes them; otherwise fill them first, with "
            "glnn.data.encode_frame(X) or sklearn.impute.SimpleImputer."
        )
    return frame
