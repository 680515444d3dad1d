"""What the cells of a column mean: numbers, dates or text."""

import re
from collections.abc import Collection, Iterator
from typing import Any, Literal

import numpy as np
import pandas as pd

from glnn.data.files import shown

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
