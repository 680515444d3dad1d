"""Work of NumPy on several threads: it lets others run while it counts."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

_WORTH_A_THREAD = 2**16
"""Numbers an item must have for its work to take longer than handing it over."""

_BLOCK = 2**18
"""Numbers of a block of rows: what is in between stays in the processor's cache."""


def mapped(
    function: Callable[[_Item], _Found], items: Sequence[_Item], n_numbers: int
) -> list[_Found]:
    """Return the function of each item, in order, on as many threads as PyTorch uses.

    Parameters
    ----------
    function, items
        What is called, and with what.
    n_numbers
        How many numbers it looks at each time; with few everything stays in this thread.

    Examples
    --------
    >>> mapped(lambda k: k**2, [1, 2, 3], n_numbers=10**6)
    [1, 4, 9]
    """
    n_threads = min(torch.get_num_threads(), len(items))
    if n_threads < 2 or n_numbers < _WORTH_A_THREAD:
        return [function(item) for item in items]
    with ThreadPoolExecutor(n_threads) as threads:
        return list(threads.map(function, items))


def by_rows(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """Return a function of arrays that takes each row by itself, block by block on threads.

    Parameters
    ----------
    function
        What some rows of each array become: one array with as many rows.
    arrays
        All rows, as many of each.

    Examples
    --------
    >>> by_rows(lambda rows: rows.sum(1, keepdims=True), np.eye(2))
    array([[1.],
           [1.]])
    """
    n_rows, width = len(arrays[0]), sum(array.shape[1] for array in arrays)
    n_block = max(1, _BLOCK // max(1, width))
    first = function(*(array[:n_block] for array in arrays))
    if n_rows <= n_block:
        return first
    found = np.empty((n_rows, *first.shape[1:]), first.dtype)
    found[:n_block] = first

    def write(start: int) -> None:
        block = slice(start, start + n_block)
        found[block] = function(*(array[block] for array in arrays))

    mapped(write, range(n_block, n_rows, n_block), n_numbers=n_block * width)
    return found
