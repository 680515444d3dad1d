"""The contract of processes that compute together, and the one process that computes alone."""

import numpy as np
from torch import Tensor


class Peers:
    """A process alone: every sum over all processes is its own part.

    Code that asks its peers for totals therefore runs in one process as if they were not there.
    Every method is called by all processes, in the same order.

    Examples
    --------
    >>> ALONE.total(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    rank: int = 0
    size: int = 1

    def total(self, part: np.ndarray) -> np.ndarray:
        """Return the sum of everyone's arrays, which have one shape."""
        return part

    def total_number(self, part: float | int) -> float:
        """Return the sum of everyone's numbers."""
        return float(part)

    def largest(self, part: float) -> float:
        """Return the largest of everyone's numbers."""
        return part

    def same(self, number: float) -> float:
        """Return process 0's number, where rounding may differ and a choice depends on it."""
        return number

    def total_(self, part: Tensor) -> Tensor:
        """Put the sum of everyone's tensors into this one, and return it."""
        return part

    def told(self, array: np.ndarray | None, speaker: int) -> np.ndarray:
        """Return the speaker's array; what the others give is not looked at."""
        assert array is not None  # alone, the speaker is oneself
        return array

    def swapped(self, parts: list[np.ndarray]) -> list[np.ndarray]:
        """Give part ``q`` to process ``q``; return what each process gave to this one."""
        return parts

    def rotated(self, sent: Tensor, received: Tensor, shift: int) -> Tensor:
        """Give a tensor to the process ``shift`` further on; fill one from ``shift`` before."""
        raise AssertionError("there is nobody to rotate with")


ALONE = Peers()
"""The one process of an ordinary fit."""
