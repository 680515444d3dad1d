"""One column of a table as columns of numbers: as it is, one-hot, by frequency, or as days."""

import dataclasses
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from glnn.data.files import shown
from glnn.data.node_data import to_float32
from glnn.data.table_files import names_of
from glnn.data.table_text import (
    DATE_FORMATS,
    DEFAULT,
    GAPS,
    TableOptions,
    ambiguous_dates,
    as_numbers,
    as_text,
    date_format,
    days_since_1970,
    is_ambiguous,
    notes_on_thousands,
    stripped,
)
from glnn.exceptions import DataFormatError, InputError

# --- column_code: One column of a table as columns of numbers: as it is, one-hot, by frequency, or

MAX_CATEGORIES = 100
"""``onehot`` refuses a column with more different values than this."""

AUTO_CATEGORIES = 30
"""``auto`` gives a column with more different values than this the shares of its values."""

Kind = Literal["number", "category", "frequency", "date"]


@dataclass(frozen=True)
class ColumnCode:
    """How one column becomes numbers.

    Parameters
    ----------
    name
        The column.
    kind
        ``number`` as it is; ``category`` a column of 0 and 1 for each of ``values``;
        ``frequency`` the share of training rows with the same value; ``date`` days since
        ``origin``.
    values, shares
        The values of a category; those that more than one row holds, and their shares of the
        rows. Any other value has the share of a single row, ``rest``.
    fill
        What a gap becomes; ``None`` refuses gaps.
    marks_gaps
        Whether a second column marks the gaps.
    n_gaps
        How many gaps the training column had.
    form, origin
        How dates are written, and the first one in days since 1970.
    """

    name: str
    kind: Kind = "number"
    values: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    rest: float = 0.0
    fill: float | None = None
    marks_gaps: bool = False
    n_gaps: int = 0
    form: str = ""
    origin: float = 0.0

    @classmethod
    def from_dict(cls, page: Mapping[str, Any]) -> "ColumnCode":
        """Return the code of plain values."""
        lists = {"values": tuple(page["values"]), "shares": tuple(page["shares"])}
        return cls(**{**page, **lists})

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        if self.kind == "category":
            return tuple(f"{self.name}={value}" for value in self.values)
        return (self.name, f"{self.name} is missing") if self.marks_gaps else (self.name,)

    def encode(self, column: pd.Series, where: str, first_row: int) -> np.ndarray:
        """Return rows x columns of float32 of new rows, or of those the code was fitted to.

        A new cell that does not fit is named with its row, and with what can be done about it now.
        """
        if self.kind == "category":
            coder = OneHotEncoder(
                categories=[np.array(self.values, dtype=object)],
                handle_unknown="ignore",
                sparse_output=False,
                dtype=np.float32,
            )
            coder.fit(np.array(self.values, dtype=object)[:, None])
            return np.asarray(coder.transform(np.array(stripped(column), dtype=object)[:, None]))
        if self.kind == "frequency":
            share = dict(zip(self.values, self.shares)) | {"": 0.0}
            return to_float32(
                np.array([share.get(c, self.rest) for c in stripped(column)])[:, None]
            )
        return self._filled(self._numbers(column, where, first_row))

    def _numbers(self, column: pd.Series, where: str, first_row: int) -> np.ndarray:
        """Return one number a row, NaN in gaps; what single precision cannot hold is refused."""
        numbers = self._read(column)
        if numbers is None:  # as in every beginning with a bad cell
            beginnings = range(1, len(column) + 1)
            place = bisect_left(beginnings, True, key=lambda k: self._read(column.iloc[:k]) is None)
            raise self._misfit(where, column, place, first_row)
        narrow = to_float32(numbers)
        bad = np.flatnonzero(np.isinf(narrow) | (np.isnan(narrow) if self.fill is None else False))
        if bad.size:
            raise self._misfit(where, column, int(bad[0]), first_row)
        return narrow

    def _read(self, column: pd.Series) -> np.ndarray | None:
        """Return one number a row in double precision, or nothing if a cell is none."""
        if self.kind == "number":
            return as_numbers(column)
        days = days_since_1970(column, self.form)
        return None if days is None else days - self.origin

    def _misfit(self, where: str, column: pd.Series, place: int, first_row: int) -> DataFormatError:
        """Return the error for a cell of new rows; the columns are chosen and fitted by now."""
        cell = stripped(column)[place]
        must, advice = "finite numbers", "Write a number there"
        if self.kind == "date":
            must, advice = f"dates like those of training, {_in_words(self.form)}", "Write it so"
        if cell in GAPS:
            advice = (
                "Training had no gap there: fill the cell, or fit again with missing='median' "
                "(--missing median), which fills gaps of new rows, too"
            )
        elif self.fill is not None:
            advice += ", or leave the cell empty: gaps get the median of training"
        return DataFormatError(
            f"column {shown(self.name)} of {where} must hold {must}, got "
            f"{shown(cell) if cell else 'an empty cell'} in row {first_row + place + 1}. {advice}."
        )

    def _filled(self, numbers: np.ndarray) -> np.ndarray:
        if self.fill is None:
            return numbers[:, None]
        gaps = np.isnan(numbers)
        imputer = SimpleImputer(strategy="median").fit(np.array([[self.fill]], dtype=np.float32))
        whole = np.asarray(imputer.transform(numbers[:, None]))
        if not self.marks_gaps:
            return whole
        return np.concatenate([whole, gaps[:, None].astype(np.float32)], axis=1)

    def new_values(self, column: pd.Series) -> list[str]:
        """Return the values of a category that training did not have."""
        return sorted(set(stripped(column)) - {"", *self.values})


def _in_words(form: str) -> str:
    """Return how dates are written, as people say it.

    Examples
    --------
    >>> _in_words("%d.%m.%Y"), _in_words("ISO8601")
    ('DD.MM.YYYY', 'YYYY-MM-DD')
    """
    if form not in DATE_FORMATS[1:]:
        return "YYYY-MM-DD"
    return form.replace("%d", "DD").replace("%m", "MM").replace("%Y", "YYYY")


def fit_column(
    where: str, column: pd.Series, name: str, options: TableOptions
) -> ColumnCode | None:
    """Choose how a column becomes numbers; ``None`` for one that says nothing."""
    numbers = as_numbers(column)
    if numbers is not None:
        return _number_code(ColumnCode(name), numbers, options, where)
    _refuse_ambiguous(where, column, name)
    form = date_format(column)
    wants_dates = options.dates or options.encode == "auto"
    if form is not None and wants_dates:
        return _date_code(where, column, name, form, options)
    if options.encode == "error":
        raise refused_text(where, column, name)
    return _text_code(where, column, name, options)


def _number_code(
    code: ColumnCode, numbers: np.ndarray, options: TableOptions, where: str
) -> ColumnCode | None:
    narrow = to_float32(numbers)
    bad, gaps = np.flatnonzero(np.isinf(narrow)), np.isnan(narrow)
    if bad.size:
        raise bad_cell(where, code.name, int(bad[0]), shown(numbers[bad[0]]))
    known = numbers[~gaps]
    fields = {**vars(code), "n_gaps": int(gaps.sum())}
    if options.missing == "error":
        if gaps.any():
            raise _gap(where, code.name, int(np.flatnonzero(gaps)[0]), int(gaps.sum()))
        constant = known.size and (known == known[0]).all()
        return None if options.drop_constant and constant else ColumnCode(**fields)
    if not known.size:
        return None
    marks = options.missing == "indicator" and bool(gaps.any())
    if options.drop_constant and (known == known[0]).all() and not marks:
        return None
    median = SimpleImputer(strategy="median").fit(known[:, None]).statistics_[0]
    return ColumnCode(**{**fields, "fill": float(np.float32(median)), "marks_gaps": marks})


def _date_code(
    where: str, column: pd.Series, name: str, form: str, options: TableOptions
) -> ColumnCode | None:
    days = days_since_1970(column, form)
    if days is None:  # pragma: no cover - the form was found on these cells
        raise bad_cell(where, name, 0, "no date")
    known = days[~np.isnan(days)]
    origin = float(known.min()) if known.size else 0.0
    code = ColumnCode(name, "date", form=form, origin=origin)
    return _number_code(code, days - origin, options, where)


def _text_code(
    where: str, column: pd.Series, name: str, options: TableOptions
) -> ColumnCode | None:
    counts = Counter(stripped(column))
    n_rows, n_gaps = counts.total(), counts.pop("", 0)
    fields: dict[str, Any] = {"n_gaps": n_gaps}
    if options.encode == "auto" and len(counts) > AUTO_CATEGORIES:
        often = sorted(value for value, count in counts.items() if count > 1)
        if not often:
            return None  # every row has its own value: a name, not a property
        shares = tuple(counts[value] / n_rows for value in often)
        return ColumnCode(name, "frequency", tuple(often), shares, 1 / n_rows, **fields)
    if len(counts) > MAX_CATEGORIES:
        raise DataFormatError(
            f"column {shown(name)} of {where} must have at most {MAX_CATEGORIES} different values "
            f"to be one-hot encoded, got {len(counts):,}. Use encode='auto' (--encode auto), which "
            f"counts how often a value occurs, or leave it out with drop (--drop {shown(name)})."
        )
    if options.drop_constant and len(counts) + bool(n_gaps) < 2:
        return None
    return ColumnCode(name, "category", tuple(sorted(counts)), **fields)


def _refuse_ambiguous(where: str, column: pd.Series, name: str) -> None:
    cell = is_ambiguous(column)
    if cell is not None:
        raise DataFormatError(
            f"column {shown(name)} of {where} must hold numbers in one reading, got {shown(cell)}: "
            "with decimal='.' (--decimal .) the comma parts thousands, with decimal=',' "
            "(--decimal ,) it begins the fraction."
        )
    cell = ambiguous_dates(column)
    if cell is not None:
        raise DataFormatError(
            f"column {shown(name)} of {where} must hold dates in one reading, got {cell}, where "
            "day and month could change places. Write dates as YYYY-MM-DD."
        )


def _gap(where: str, name: str, row: int, count: int = 1) -> DataFormatError:
    more = f" ({count:,} in all)" if count > 1 else ""
    return DataFormatError(
        f"column {shown(name)} of {where} must hold finite numbers, got an empty cell in row "
        f"{row + 1}{more}. Fill gaps with missing='median' or 'indicator' (--missing median), or "
        f"leave the column out with drop (--drop {shown(name)})."
    )


def bad_cell(where: str, name: str, row: int, what: str) -> DataFormatError:
    """Return the error that names a cell by its column and row."""
    return DataFormatError(
        f"column {shown(name)} of {where} must hold finite numbers, got {what} in row {row + 1}. "
        f"Correct it, or leave the column out with drop (--drop {shown(name)})."
    )


def refused_text(where: str, column: pd.Series, name: str) -> DataFormatError:
    """Return the error for a column of text, which names its first cell that is no number."""
    texts = as_text(column)
    alone = pd.Series(texts, dtype=object)
    known = (k for k, text in enumerate(texts) if text.strip() not in GAPS)
    row = next((k for k in known if as_numbers(alone[[k]]) is None), 0)
    if date_format(column) is not None:
        advice = "It holds dates: turn them into numbers with dates=True (--dates), "
    else:
        advice = "It holds text: encode it with encode='auto' (--encode auto), "
    return DataFormatError(
        f"column {shown(name)} of {where} must hold finite numbers, got {shown(texts[row])} in "
        f"row {row + 1}. {advice}name it with --id or --label if it is one, or leave "
        f"it out with drop (--drop {shown(name)})."
    )


# --- encoder: Columns of a table as columns of numbers: fitted once, kept as JSON, applied to new

_BATCH_CELLS = 4_000_000


@dataclass(frozen=True)
class TableEncoder:
    """How the feature columns of a table become numbers.

    Parameters
    ----------
    codes
        One for each column that is used, in the order of the table.
    constant
        Names of the columns that were left out because they say nothing.
    """

    codes: tuple[ColumnCode, ...]
    constant: tuple[str, ...] = ()

    @classmethod
    def fit(
        cls,
        where: str,
        names: Sequence[str],
        column: Callable[[str], pd.Series],
        options: TableOptions,
    ) -> "TableEncoder":
        """Look at one column after the other.

        Parameters
        ----------
        where
            What holds the columns, for messages: a path or ``X``.
        names
            The feature columns.
        column
            Returns the column of a name.
        options
            What to do with text, dates and gaps.
        """
        found: dict[str, ColumnCode | None] = {}
        refused: dict[str, DataFormatError] = {}
        for name in names:
            try:
                found[name] = fit_column(where, column(name), name, options)
            except DataFormatError as error:
                refused[name] = error
        if refused:
            raise _all_refused(refused)
        codes = tuple(code for code in found.values() if code is not None)
        if names and not codes:
            raise InputError(
                f"{where} must have a feature column that says something, got only columns that "
                "hold one value or another value in every row."
            )
        return cls(codes, tuple(name for name, code in found.items() if code is None))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that a table must have."""
        return tuple(code.name for code in self.codes)

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the columns of numbers."""
        return tuple(name for code in self.codes for name in code.feature_names)

    def transform(self, frame: pd.DataFrame, where: str, first_row: int = 0) -> sp.csr_matrix:
        """Return the features of a table's rows, float32.

        Parameters
        ----------
        frame
            Has the columns of the training table under their names; others are not looked at.
        where
            What holds the columns, for messages.
        first_row
            Number of the first row, for messages.
        """
        present = set(map(str, frame.columns))
        absent = [name for name in self.names if name not in present]
        if absent:
            more = ", ..." if len(absent) > 3 else ""
            raise InputError(
                f"{where} must have the columns of the training data, got none named "
                f"{', '.join(map(shown, absent[:3]))}{more}."
            )
        frame = frame.set_axis(list(map(str, frame.columns)), axis=1)
        size = max(1, _BATCH_CELLS // max(1, len(self.feature_names)))
        blocks = [
            sp.csr_matrix(self._encoded(frame.iloc[start : start + size], where, first_row + start))
            for start in range(0, len(frame), size)
        ]
        if not blocks:
            return sp.csr_matrix((0, len(self.feature_names)), dtype=np.float32)
        return sp.csr_matrix(sp.vstack(blocks, format="csr"))

    def _encoded(self, rows: pd.DataFrame, where: str, first_row: int) -> np.ndarray:
        blocks = [code.encode(rows[code.name], where, first_row) for code in self.codes]
        return np.concatenate(blocks, axis=1)

    def notes(self) -> Iterator[str]:
        """Yield one sentence for each thing that was done to the columns."""
        kinds = {
            "category": "one-hot encoded",
            "frequency": "took the share of rows with the same value of",
            "date": "took days since the first date of",
        }
        for kind, words in kinds.items():
            yield from _listed(f"features: {words}", (c.name for c in self.codes if c.kind == kind))
        filled = (code.name for code in self.codes if code.n_gaps and code.fill is not None)
        yield from _listed("features: filled gaps with the median of", filled)
        marked = (code.name for code in self.codes if code.marks_gaps)
        yield from _listed("features: added a column that marks the gaps of", marked)
        yield from _listed("features: left out, one value or all different:", self.constant)

    def notes_on_new(self, frame: pd.DataFrame, known: Sequence[str | None]) -> Iterator[str]:
        """Yield how a new table was read, and what is not used of it: columns and new values.

        Parameters
        ----------
        frame
            The new table.
        known
            Further columns that are not features and need no word: ids, labels, split.
        """
        yield from notes_on_thousands(frame, self.names)
        used = {*self.names, *self.constant, *known}
        yield from _listed("left out columns", (str(n) for n in frame if str(n) not in used))
        for code in self.codes:
            if code.kind == "category":
                what = f"features: no column for new values of {shown(code.name)}:"
                yield from _listed(what, code.new_values(frame[code.name]))

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {"codes": [dataclasses.asdict(c) for c in self.codes], "constant": [*self.constant]}

    @classmethod
    def from_dict(cls, page: Mapping[str, Any]) -> "TableEncoder":
        """Return the encoder that :meth:`to_dict` wrote."""
        codes = (ColumnCode.from_dict(code) for code in page["codes"])
        return cls(tuple(codes), tuple(page["constant"]))


def _all_refused(errors: Mapping[str, DataFormatError]) -> DataFormatError:
    """Return the first error, with the names of the other columns that need a word too."""
    first, *others = errors
    also = " ".join(_listed("Other columns that cannot be used as they are:", others))
    return DataFormatError(f"{errors[first]} {also}." if also else str(errors[first]))


def _listed(start: str, names: Any) -> Iterator[str]:
    """Yield one sentence with the first names, or none if there are none."""
    found = list(names)
    if found:
        more = f" and {len(found) - 3} more" if len(found) > 3 else ""
        yield f"{start} {', '.join(map(shown, found[:3]))}{more}"


# --- frames: Frames of pandas as features: columns of numbers, or encoded with the rules of tables


def encode_frame(
    frame: pd.DataFrame, options: TableOptions = DEFAULT, **changes: Any
) -> tuple[pd.DataFrame, TableEncoder]:
    """Turn text, dates and gaps of a frame into numbers.

    Parameters
    ----------
    frame
        One row for each node; all columns are features.
    options
        What to do with text, dates and gaps; columns to use or to leave out are chosen by pandas.
    **changes
        Fields of ``options`` by name: ``encode="auto"``, ``missing="median"``.

    Returns
    -------
    tuple of DataFrame and TableEncoder
        The numbers under the same index; the encoder does the same to new rows.

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
    options = options.changed(**changes)
    encoder = TableEncoder.fit("the frame", names_of(named), named.__getitem__, options)
    return encoded_frame(frame, encoder), encoder


def encoded_frame(frame: pd.DataFrame, encoder: TableEncoder) -> pd.DataFrame:
    """Return new rows as numbers with an encoder of :func:`encode_frame`."""
    values = encoder.transform(frame, "the frame").toarray()
    return pd.DataFrame(values, index=frame.index, columns=list(encoder.feature_names))


def numeric_frame(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose columns are numbers; text, dates and gaps are refused by name.

    Columns that NumPy holds as numbers are left as they are; numbers in columns of other kinds,
    such as pandas' whole numbers with gaps, become float64.
    """
    changed: dict[Any, np.ndarray] = {}
    for name in frame.columns:
        if not isinstance(frame[name].dtype, np.dtype) or frame[name].dtype.kind not in "fiub":
            numbers = as_numbers(frame[name])
            if numbers is None:
                raise InputError(
                    f"X must hold numbers, got {_what(frame[name])} in column {shown(name)}. "
                    "Encode it first: X, encoder = glnn.data.encode_frame(X, encode='auto'), or "
                    "with scikit-learn's OneHotEncoder."
                )
            changed[name] = numbers
    gaps = [name for name in frame.columns if pd.isna(changed.get(name, frame[name])).any()]
    if gaps:
        more = f" and {len(gaps) - 3} more columns" if len(gaps) > 3 else ""
        raise InputError(
            f"X must be finite, got NaN or missing values in {', '.join(map(shown, gaps[:3]))}"
            f"{more}. Fill them first: X, encoder = glnn.data.encode_frame(X, missing='median'), "
            "or with sklearn.impute.SimpleImputer."
        )
    if changed:
        frame = frame.copy(deep=False)
        for name, numbers in changed.items():
            frame[name] = numbers
    return frame


def _what(column: pd.Series) -> str:
    is_date = pd.api.types.is_datetime64_any_dtype(column.dtype)
    known = column.dropna()
    return "dates" if is_date else f"{shown(known.iloc[0])}" if len(known) else "nothing"
