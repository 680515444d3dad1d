"""Columns of a table as columns of numbers: fitted once, kept as JSON, applied to new rows."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn.data.cells import notes_on_thousands
from glnn.data.column_code import ColumnCode, fit_column
from glnn.data.files import shown
from glnn.data.options import TableOptions
from glnn.exceptions import DataFormatError, InputError

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
