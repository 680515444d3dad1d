"""The contract of processes that compute together, and the one process that computes alone."""

from typing import Literal, TypeVar

import numpy as np
from torch import Tensor

Reduction = Literal["sum", "max"]
T = TypeVar("T", float, np.ndarray, Tensor)


class Peers:
    """A process alone: whatever is reduced, gathered or exchanged is its own part.

    Code that speaks to its peers therefore runs in one process as if they were not there. The
    words are those of ``torch.distributed``. Every method is called by all processes, in the same
    order; numbers, NumPy arrays and tensors may travel, and none is changed in place but by the
    methods whose name ends with ``_``.

    Examples
    --------
    >>> ALONE.all_reduce(np.array([1.0, 2.0]))
    array([1., 2.])
    """

    rank: int = 0
    size: int = 1

    def all_reduce(self, part: T, op: Reduction = "sum") -> T:
        """Return the sum (or maximum) of everyone's parts, which have one shape."""
        return part

    def all_reduce_(self, part: Tensor) -> Tensor:
        """Put the sum of everyone's tensors into this one, and return it."""
        return part

    def broadcast(self, part: T | None, source: int = 0) -> T:
        """Return the part of ``source``; what the others give is not looked at.

        Also where rounding may differ between processes and a choice depends on it.
        """
        assert part is not None  # alone, the source is oneself
        return part

    def all_gather(self, part: T) -> list[T]:
        """Return everyone's parts in the order of processes; lengths may differ."""
        return [part]

    def all_to_all(self, parts: list[T]) -> list[T]:
        """Give part ``q`` to process ``q``; return what each process gave to this one."""
        return parts

    def all_to_all_(self, received: list[Tensor], sent: list[Tensor]) -> None:
        """Give tensor ``q`` to process ``q``; fill ``received``, all messages at once.

        Places for oneself are not looked at. Shapes must be known: nothing else travels.
        """

    def ring_shift(self, sent: Tensor, received: Tensor, shift: int = 1) -> Tensor:
        """Give a tensor to the process ``shift`` further on; fill one from ``shift`` before."""
        raise AssertionError("there is nobody to shift to")


ALONE = Peers()
"""The one process of an ordinary fit."""
