"""Frames of pandas as features: columns of numbers, or encoded with the rules of tables."""

from typing import Any

import numpy as np
import pandas as pd

from glnn.data.cells import as_numbers
from glnn.data.encoder import TableEncoder
from glnn.data.files import shown
from glnn.data.options import DEFAULT, TableOptions
from glnn.data.table_file import names_of
from glnn.exceptions import InputError


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
