"""Cells that no spreadsheet takes for a formula."""

from typing import Any

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def safe_cell(cell: Any) -> Any:
    """Return a cell that is no formula: an apostrophe before text that a spreadsheet would run.

    Examples
    --------
    >>> safe_cell("=1+1"), safe_cell("-3"), safe_cell("oak"), safe_cell(-0.5)
    ("'=1+1", '-3', 'oak', -0.5)
    """
    if not isinstance(cell, str) or not cell.startswith(_FORMULA):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell
