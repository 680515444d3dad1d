"""Work of NumPy on several threads: it lets others run while it counts."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")

_WORTH_A_THREAD = 2**16
"""Numbers an item must have for its work to take longer than handing it over."""


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
