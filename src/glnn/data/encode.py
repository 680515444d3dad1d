"""Encoding the columns of a table as numbers.

A column stays as it is, is one-hot encoded, is replaced by the frequency of its values, or becomes
days. :class:`TableEncoder` is fitted once, stored as JSON and applied to new rows.
"""

import dataclasses
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn.data.files import quote
from glnn.data.node_data import to_float32
from glnn.data.table_text import (
    DATE_FORMATS,
    DEFAULT_OPTIONS,
    MISSING_MARKERS,
    TableOptions,
    days_since_1970,
    describe_thousands,
    detect_date_format,
    find_ambiguous_date,
    find_ambiguous_number,
    strip_cells,
    to_numbers,
    to_text,
)
from glnn.exceptions import DataFormatError, InputError

# One column

MAX_CATEGORIES = 100  # "onehot" refuses columns with more different values
AUTO_CATEGORIES = 30  # "auto" encodes columns with more different values by frequency

Kind = Literal["number", "category", "frequency", "date"]


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
    origin: float = 0.0  # first date, in days since 1970

    @classmethod
    def from_dict(cls, page: Mapping[str, Any]) -> "ColumnCode":
        """Return the code with the given fields."""
        lists = {"values": tuple(page["values"]), "shares": tuple(page["shares"])}
        return cls(**{**page, **lists})

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the encoded columns."""
        if self.kind == "category":
            return tuple(f"{self.name}={value}" for value in self.values)
        return (self.name, f"{self.name} is missing") if self.marks_gaps else (self.name,)

    def encode(self, column: pd.Series, where: str, first_row: int) -> np.ndarray:
        """Encode a column as float32, rows x encoded columns.

        The error for a cell that cannot be encoded names its row and what to do about it.
        """
        if self.kind == "category":
            cells = np.array(strip_cells(column), dtype=object)
            return to_float32(cells[:, None] == np.array(self.values, dtype=object))
        if self.kind == "frequency":
            share = dict(zip(self.values, self.shares)) | {"": 0.0}
            return to_float32(
                np.array([share.get(c, self.rest) for c in strip_cells(column)])[:, None]
            )
        numbers = self._parse(column)
        if numbers is None:  # find the first bad cell: every longer beginning is bad too
            beginnings = range(1, len(column) + 1)
            place = bisect_left(
                beginnings, True, key=lambda k: self._parse(column.iloc[:k]) is None
            )
            raise self._cell_error(where, column, place, first_row)
        narrow = to_float32(numbers)
        gaps = np.isnan(narrow)
        bad = np.flatnonzero(np.isinf(narrow) | (gaps & (self.fill is None)))
        if bad.size:
            raise self._cell_error(where, column, int(bad[0]), first_row)
        whole = np.where(gaps, np.float32(self.fill or 0), narrow)
        return np.stack([whole, to_float32(gaps)], axis=1) if self.marks_gaps else whole[:, None]

    def _parse(self, column: pd.Series) -> np.ndarray | None:
        """Return one float64 a row, NaN if missing; ``None`` if a cell cannot be parsed."""
        if self.kind == "number":
            return to_numbers(column)
        days = days_since_1970(column, self.form)
        return None if days is None else days - self.origin

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

    def unseen_values(self, column: pd.Series) -> list[str]:
        """Return the values that the training column did not have, sorted."""
        return sorted(set(strip_cells(column)) - {"", *self.values})


def fit_column(
    where: str, column: pd.Series, name: str, options: TableOptions
) -> ColumnCode | None:
    """Choose how a column is encoded; ``None`` for a column without information."""
    numbers = to_numbers(column)
    if numbers is not None:
        return _fit_numbers(ColumnCode(name), numbers, options, where)
    _check_unambiguous(where, column, name)
    form = detect_date_format(column)
    days = None if form is None else days_since_1970(column, form)
    if form is not None and days is not None and (options.dates or options.encode == "auto"):
        known = days[~np.isnan(days)]
        origin = float(known.min()) if known.size else 0.0
        code = ColumnCode(name, "date", form=form, origin=origin)
        return _fit_numbers(code, days - origin, options, where)
    if options.encode == "error":
        raise _text_column_error(where, column, name, is_date=form is not None)
    return _fit_text(where, column, name, options)


def _fit_numbers(
    code: ColumnCode, numbers: np.ndarray, options: TableOptions, where: str
) -> ColumnCode | None:
    narrow = to_float32(numbers)
    bad, gaps = np.flatnonzero(np.isinf(narrow)), np.flatnonzero(np.isnan(narrow))
    start = f"column {quote(code.name)} of {where} must hold finite numbers, got"
    drop = f"leave the column out with drop (--drop {quote(code.name)})."
    if bad.size:
        raise DataFormatError(
            f"{start} {quote(numbers[bad[0]])} in row {bad[0] + 1}. Correct it, or {drop}"
        )
    if options.missing == "error" and gaps.size:
        more = f" ({gaps.size:,} in all)" if gaps.size > 1 else ""
        raise DataFormatError(
            f"{start} an empty cell in row {gaps[0] + 1}{more}. Fill gaps with missing='median' "
            f"or 'indicator' (--missing median), or {drop}"
        )
    known = np.delete(numbers, gaps)
    marks = options.missing == "indicator" and bool(gaps.size)
    constant = bool(known.size) and bool((known == known[0]).all())
    if (not known.size and numbers.size) or (options.drop_constant and constant and not marks):
        return None
    fill = None if options.missing == "error" else float(np.float32(np.median(known)))
    return dataclasses.replace(code, fill=fill, marks_gaps=marks, n_gaps=gaps.size)


def _fit_text(where: str, column: pd.Series, name: str, options: TableOptions) -> ColumnCode | None:
    counts = Counter(strip_cells(column))
    n_rows, n_gaps = counts.total(), counts.pop("", 0)
    fields: dict[str, Any] = {"n_gaps": n_gaps}
    if options.encode == "auto" and len(counts) > AUTO_CATEGORIES:
        often = sorted(value for value, count in counts.items() if count > 1)
        if not often:
            return None  # every row has its own value: a name, not a feature
        shares = tuple(counts[value] / n_rows for value in often)
        return ColumnCode(name, "frequency", tuple(often), shares, 1 / n_rows, **fields)
    if len(counts) > MAX_CATEGORIES:
        raise DataFormatError(
            f"column {quote(name)} of {where} must have at most {MAX_CATEGORIES} different values "
            f"to be one-hot encoded, got {len(counts):,}. Use encode='auto' (--encode auto), which "
            f"counts how often a value occurs, or leave it out with drop (--drop {quote(name)})."
        )
    if options.drop_constant and len(counts) + bool(n_gaps) < 2:
        return None
    return ColumnCode(name, "category", tuple(sorted(counts)), **fields)


def _check_unambiguous(where: str, column: pd.Series, name: str) -> None:
    cell = find_ambiguous_number(column)
    if cell is not None:
        raise DataFormatError(
            f"column {quote(name)} of {where} must hold unambiguous numbers, got {quote(cell)}: "
            "with decimal='.' (--set decimal=.) the comma separates thousands, with decimal=',' "
            "(--set decimal=,) it begins the fraction."
        )
    cell = find_ambiguous_date(column)
    if cell is not None:
        raise DataFormatError(
            f"column {quote(name)} of {where} must hold unambiguous dates, got {quote(cell)}, "
            "where day and month could be exchanged. Write dates as YYYY-MM-DD."
        )


def _text_column_error(
    where: str, column: pd.Series, name: str, *, is_date: bool
) -> DataFormatError:
    """Return the error for a text column, with its first cell that is not a number."""
    texts = to_text(column)
    alone = pd.Series(texts, dtype=object)
    known = (k for k, text in enumerate(texts) if text.strip() not in MISSING_MARKERS)
    row = next((k for k in known if to_numbers(alone[[k]]) is None), 0)
    advice = (
        "It holds dates: turn them into numbers with dates=True (--set dates=true)"
        if is_date
        else "It holds text: encode it with encode='auto' (--encode auto)"
    )
    return DataFormatError(
        f"column {quote(name)} of {where} must hold finite numbers, got {quote(texts[row])} in "
        f"row {row + 1}. {advice}, name it with --id or --label if it is one, or leave "
        f"it out with drop (--drop {quote(name)})."
    )


# All columns of a table

_BATCH_CELLS = 4_000_000  # bounds the size of a dense block


@dataclass(frozen=True)
class TableEncoder:
    """How the feature columns of a table are encoded as numbers."""

    codes: tuple[ColumnCode, ...]  # one for each column that is used, in the order of the table
    constant: tuple[str, ...] = ()  # names of the columns left out for lack of information

    @classmethod
    def fit(
        cls,
        where: str,
        names: Sequence[str],
        column: Callable[[str], pd.Series],
        options: TableOptions,
    ) -> "TableEncoder":
        """Fit an encoder to the columns ``names``; ``where`` names the table in messages."""
        found: dict[str, ColumnCode | None] = {}
        refused: dict[str, DataFormatError] = {}
        for name in names:
            try:
                found[name] = fit_column(where, column(name), name, options)
            except DataFormatError as error:
                refused[name] = error
        if refused:
            first, *others = refused
            also = " ".join(_list_names("Other columns that cannot be used as they are:", others))
            raise DataFormatError(f"{refused[first]} {also}." if also else str(refused[first]))
        codes = tuple(code for code in found.values() if code is not None)
        if names and not codes:
            raise InputError(
                f"{where} must have an informative feature column, got only columns with one "
                "value, or with a different value in every row."
            )
        return cls(codes, tuple(name for name, code in found.items() if code is None))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the table columns that are used."""
        return tuple(code.name for code in self.codes)

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
            more = ", ..." if len(absent) > 3 else ""
            raise InputError(
                f"{where} must have the columns of the training data, got none named "
                f"{', '.join(map(quote, absent[:3]))}{more}."
            )
        frame = frame.set_axis(list(map(str, frame.columns)), axis=1)
        size = max(1, _BATCH_CELLS // max(1, len(self.feature_names)))
        blocks = [sp.csr_matrix((0, len(self.feature_names)), dtype=np.float32)]
        for start in range(0, len(frame), size):
            rows, first = frame.iloc[start : start + size], first_row + start
            columns = [code.encode(rows[code.name], where, first) for code in self.codes]
            blocks.append(sp.csr_matrix(np.concatenate(columns, axis=1)))
        return sp.csr_matrix(sp.vstack(blocks, format="csr"))

    def notes(self) -> Iterator[str]:
        """Yield sentences on how the columns were encoded."""
        kinds = {
            "category": "one-hot encoded",
            "frequency": "took the share of rows with the same value of",
            "date": "took days since the first date of",
        }
        for kind, words in kinds.items():
            yield from _list_names(
                f"features: {words}", (c.name for c in self.codes if c.kind == kind)
            )
        filled = (code.name for code in self.codes if code.n_gaps and code.fill is not None)
        yield from _list_names("features: filled gaps with the median of", filled)
        marked = (code.name for code in self.codes if code.marks_gaps)
        yield from _list_names("features: added a column that marks the gaps of", marked)
        yield from _list_names("features: left out, one value or all different:", self.constant)

    def notes_on_new(self, frame: pd.DataFrame, known: Sequence[str | None]) -> Iterator[str]:
        """Yield sentences on how a new table was read: ambiguous cells, unused columns and values.

        ``known`` are columns of ids, labels and split, which are not mentioned.
        """
        yield from describe_thousands(frame, self.names)
        used = {*self.names, *self.constant, *known}
        yield from _list_names("left out columns", (str(n) for n in frame if str(n) not in used))
        for code in self.codes:
            if code.kind == "category":
                what = f"features: no column for new values of {quote(code.name)}:"
                yield from _list_names(what, code.unseen_values(frame[code.name]))

    def to_dict(self) -> dict[str, Any]:
        """Return the encoder as a JSON-compatible dict."""
        return {"codes": [dataclasses.asdict(c) for c in self.codes], "constant": [*self.constant]}

    @classmethod
    def from_dict(cls, page: Mapping[str, Any]) -> "TableEncoder":
        """Restore an encoder from :meth:`to_dict`."""
        codes = (ColumnCode.from_dict(code) for code in page["codes"])
        return cls(tuple(codes), tuple(page["constant"]))


def _list_names(start: str, names: Any) -> Iterator[str]:
    """Yield one sentence with the first three names, or nothing if there are none."""
    found = list(names)
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        yield f"{start} {', '.join(map(quote, found[:3]))}{more}"


# Frames of pandas


def encode_frame(
    frame: pd.DataFrame, options: TableOptions = DEFAULT_OPTIONS, **changes: Any
) -> tuple[pd.DataFrame, TableEncoder]:
    """Encode the text, dates and missing cells of a frame as numbers.

    All columns are features. ``changes`` are fields of ``options`` by name, such as
    ``encode="auto"``. Returns the encoded frame with the same index, and the encoder for new rows.

    Examples
    --------
    >>> people = pd.DataFrame({"age": [30, None], "job": ["cook", "pilot"]}, index=["ann", "bob"])
    >>> numbers, encoder = encode_frame(people, encode="onehot", missing="median")
    >>> numbers
          age  job=cook  job=pilot
    ann  30.0       1.0        0.0
    bob  30.0       0.0        1.0
    """
    named = frame.set_axis(list(map(str, frame.columns)), axis=1)
    options = options.replace(**changes)
    encoder = TableEncoder.fit("the frame", list(map(str, named)), named.__getitem__, options)
    return transform_frame(frame, encoder), encoder


def transform_frame(frame: pd.DataFrame, encoder: TableEncoder) -> pd.DataFrame:
    """Encode new rows with an encoder of :func:`encode_frame`."""
    values = encoder.transform(frame, "the frame").toarray()
    return pd.DataFrame(values, index=frame.index, columns=list(encoder.feature_names))


def to_numeric_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert the columns of a frame to numbers; raise on text, dates and missing cells.

    Columns with a numeric NumPy dtype stay as they are; numbers of other dtypes, such as the
    nullable integers of pandas, become float64.
    """
    changed: dict[Any, np.ndarray] = {}
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
                f"{quote(name)}. Encode it first: X, encoder = glnn.data.encode_frame(X, "
                "encode='auto'), or with scikit-learn's OneHotEncoder."
            )
        changed[name] = numbers
    gaps = [name for name in frame.columns if pd.isna(changed.get(name, frame[name])).any()]
    if gaps:
        listed = " ".join(_list_names("X must be finite, got NaN or missing values in", gaps))
        raise InputError(
            f"{listed}. Fill them first: X, encoder = glnn.data.encode_frame(X, missing='median'), "
            "or with sklearn.impute.SimpleImputer."
        )
    if changed:
        frame = frame.copy(deep=False)
        for name, numbers in changed.items():
            frame[name] = numbers
    return frame
