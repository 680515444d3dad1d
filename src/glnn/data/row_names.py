"""Names of the rows of a fit: found in what it is given, used where people speak of a row."""

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from glnn._validation import did_you_mean
from glnn.data.arrays import ids_from_text
from glnn.data.files import shown
from glnn.data.node_data import NodeData
from glnn.exceptions import InputError

_MOST_COMPARED = 10_000
"""Names among which the one that was probably meant is looked for."""


def names_of_rows(x: Any, y: Any = None, ids: Any = None) -> np.ndarray | None:
    """Return the names of the rows of a fit as whole numbers or text, or nothing without names.

    Parameters
    ----------
    x, y, ids
        As in :func:`glnn.data.arguments.as_fit_arguments`: names are ``ids``, else those of a
        whole record, else the index of a frame ``x``, unless it only counts; without features that
        of a series ``y``.

    Examples
    --------
    >>> names_of_rows(pd.DataFrame({"age": [30, 40]}, index=["ann", "bob"])).tolist()
    ['ann', 'bob']
    >>> names_of_rows(np.eye(2), ids=["7", "12"]).tolist()
    [7, 12]
    """
    rows = y if x is None else x
    if ids is None:
        ids = _own_names(rows)
    if ids is None:
        return None
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InputError(f"ids must hold one name for each row, got {shown(ids)}.")
    names = ids_from_text([str(name) for name in ids])
    n_rows = len(rows) if isinstance(rows, list) else getattr(rows, "shape", names.shape)[0]
    if len(names) != n_rows:
        raise InputError(f"ids must name each of the {n_rows} rows, got {len(names)} names.")
    return names


def _own_names(rows: Any) -> Any:
    if isinstance(rows, NodeData):
        return rows.ids
    if isinstance(rows, pd.DataFrame | pd.Series):
        return index_names(rows)
    return getattr(rows, "node_ids", None)  # of PyG's data


def index_names(frame: pd.DataFrame | pd.Series) -> np.ndarray | None:
    """Return the index as names of the rows, or nothing if it only counts them."""
    index = frame.index
    if isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1:
        return None
    return index.to_numpy()


def row_number(node: int | str, names: np.ndarray | None) -> int:
    """Return the number of a row: whole numbers are such, text is its name.

    Examples
    --------
    >>> row_number("bob", np.array(["ann", "bob"])), row_number(0, np.array(["ann", "bob"]))
    (1, 0)
    """
    if not isinstance(node, str):
        return node
    if names is None:
        raise InputError(
            f"node must be the number of a row, as the rows have no names, got {shown(node)}. "
            "Name them with the index of a DataFrame X or with ids= in fit."
        )
    texts = names.astype(np.str_)
    found = np.flatnonzero(texts == node)
    if not found.size:
        hint = did_you_mean(node, texts.tolist()) if len(texts) <= _MOST_COMPARED else ""
        raise InputError(
            f"node must be the name or the number of a row, got {shown(node)}, which names none."
            f"{hint}"
        )
    if found.size > 1:
        raise InputError(
            f"node must name one row, got {shown(node)}, the name of {found.size}. Give its "
            f"number: {', '.join(map(str, found[:3].tolist()))}{', ...' * (found.size > 3)}."
        )
    return int(found[0])


def name_column(names: np.ndarray | None, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return the column ``name`` of a table of rows; none where rows have no names.

    Examples
    --------
    >>> name_column(np.array(["ann", "bob"]), np.array([1]))["name"].tolist()
    ['bob']
    """
    return {} if names is None else {"name": names[rows]}
