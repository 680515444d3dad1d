"""The columns of the user's table: their values as text, and groups of rows by value."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from jaxtyping import Int

from glnn.data.encode import ColumnCode, TableEncoder, fit_column
from glnn.data.table_text import DEFAULT_OPTIONS

MAX_COLUMNS = 30
_N_QUANTILES = 4
_MAX_GROUPS = 9  # values of a text column that have a group of their own
_MAX_TEXT = 80  # characters of a cell that are kept
OTHER_VALUES = "other values"  # the group of all rarer ones
_MAX_WIDTH = 100  # columns of a matrix without a table
_DAY = 86400.0  # seconds


@dataclass(frozen=True, eq=False)
class RowColumn:
    """One column of the table: numbers, dates or text."""

    name: str
    values: np.ndarray  # numbers, NaN for a gap; or indices of ``words``, -1 for a gap
    words: tuple[str, ...] = ()  # the different texts; empty for numbers
    is_date: bool = False  # numbers are seconds since 1970

    @property
    def is_text(self) -> bool:
        """Whether the values are text."""
        return self.values.dtype.kind == "i"

    def pick(self, rows: np.ndarray) -> "RowColumn":
        """Return the column of some rows."""
        return RowColumn(self.name, self.values[rows], self.words, self.is_date)

    def texts(self) -> tuple[list[str], Int[np.ndarray, "n"]]:
        """Return the different values as text, in their order, and the index of each row's value.

        The index of a gap is -1.
        """
        used, index = np.unique(self.values, return_inverse=True)
        if self.is_text:
            has_gaps = int(used[0] < 0)
            return [self.words[k] for k in used[has_gaps:]], index - has_gaps
        used = used[np.isfinite(used)]  # NaN and infinity come last
        return [self._format(one) for one in used], np.where(index < len(used), index, -1)

    def groups(self) -> tuple[list[str], Int[np.ndarray, "n"]]:
        """Return the names of the groups, and the group of each row.

        Numbers are grouped by their quartiles, or by value if there are few; text by its most
        frequent values. Gaps are a group of their own.

        Examples
        --------
        >>> names, group = RowColumn("age", np.array([20.0, 30.0, np.nan, 20.0])).groups()
        >>> names, group.tolist()
        (['20', '30', 'missing'], [0, 1, 2, 0])
        """
        names, group = self._group_text() if self.is_text else self._group_numbers()
        if (group < 0).any():
            group = np.where(group < 0, len(names), group)
            names = [*names, "missing"]
        return names, group

    def _group_text(self) -> tuple[list[str], np.ndarray]:
        counts = np.bincount(self.values[self.values >= 0], minlength=len(self.words))
        order = np.argsort(-counts, kind="stable")[: np.count_nonzero(counts)]
        kept = order[:_MAX_GROUPS]
        place = np.full(len(self.words) + 1, len(kept))
        place[kept] = np.arange(len(kept))
        place[-1] = -1  # gaps have the index -1
        names = [self.words[k] for k in kept]
        return [*names, OTHER_VALUES] if len(order) > len(kept) else names, place[self.values]

    def _group_numbers(self) -> tuple[list[str], np.ndarray]:
        known = np.isfinite(self.values)
        values, group = self.values[known], np.full(len(self.values), -1, np.int64)
        found = np.unique(values)
        if len(found) <= _N_QUANTILES + 1:
            group[known] = np.searchsorted(found, values)
            return [self._format(value) for value in found], group
        cuts = np.unique(np.quantile(values, np.linspace(0, 1, _N_QUANTILES + 1)))
        group[known] = np.searchsorted(cuts[1:-1], values, "right")
        texts = [self._format(value) for value in cuts]
        return [f"{low} to {high}" for low, high in pairwise(texts)], group

    def _format(self, value: float) -> str:
        if self.is_date:
            time = np.datetime64(int(value), "s")
            return str(time if value % _DAY else time.astype("M8[D]"))
        return f"{value:.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.5g}"


def read_columns(
    frame: pd.DataFrame, encoder: TableEncoder | None = None, first: Collection[str] = ()
) -> tuple[RowColumn, ...]:
    """Return at most ``MAX_COLUMNS`` columns of a table in its order, read as for the fit.

    If there are more, those named in ``first`` are preferred (as well as those that a name there
    refers to, such as ``city`` for ``city=Rome``). Columns of one value are left out. Without an
    ``encoder`` all columns hold numbers.
    """
    starts = {name.split("=")[0] for name in first} | set(first)
    kept = (
        k
        for k in sorted(range(frame.shape[1]), key=lambda k: str(frame.columns[k]) not in starts)
        if frame.iloc[:, k].nunique(dropna=False) > 1
    )
    codes = {code.name: code for code in (() if encoder is None else encoder.codes)}
    found = []
    for k in sorted(islice(kept, MAX_COLUMNS)):
        name, cells = str(frame.columns[k]), frame.iloc[:, k]
        if encoder is not None and name not in codes:  # no feature: read it as one
            codes[name] = fit_column("the table", cells, name, DEFAULT_OPTIONS)
        found.append(_read_column(name, cells, codes.get(name, ColumnCode(name))))
    return tuple(found)


def _read_column(name: str, cells: pd.Series, code: ColumnCode) -> RowColumn:
    is_text = code.kind in ("category", "frequency") or pd.api.types.is_bool_dtype(cells)
    numbers = None if is_text else code.parse(cells)
    if numbers is None:
        texts = pd.Series([text[:_MAX_TEXT] for text in code.texts(cells)], dtype=object)
        index, words = pd.factorize(texts.where(texts != ""), sort=True)
        return RowColumn(name, index.astype(np.int64), tuple(map(str, words)))
    numbers = np.where(np.isfinite(numbers), numbers, np.nan)
    is_date = code.kind == "date"
    return RowColumn(name, numbers * _DAY if is_date else numbers, is_date=is_date)


def columns_of_features(
    table: Any, names: Sequence[str], encoder: TableEncoder | None, first: Collection[str]
) -> tuple[RowColumn, ...]:
    """Return the columns of a frame, or of features that are not too many to be a table."""
    if isinstance(table, pd.DataFrame):
        return read_columns(table, encoder, first)
    if table is None or table.shape[1] != len(names) or len(names) > _MAX_WIDTH:
        return ()
    dense = table.toarray() if sp.issparse(table) else np.asarray(table)
    return read_columns(pd.DataFrame(dense, columns=[str(name) for name in names]), first=first)
