"""Ctrl-C and SIGTERM: the first ends the work after its step, the second at once."""

import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """Take note of a request to end inside the block, and end where the work can be gone on with.

    Parameters
    ----------
    advice
        How to go on, for the line that is said at the end.
    alone
        Whether this process works alone; several end together, as ``torchrun`` tells them.
    """

    def __init__(self, advice: str, *, alone: bool = True) -> None:
        self._advice, self._number, self._alone = advice, 0, alone
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interruption":
        is_main = threading.current_thread() is threading.main_thread()
        if self._alone and is_main:  # other threads get no signals
            self._before = {number: signal.signal(number, self._note) for number in _SIGNALS}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """End the work if that was asked for."""
        if not self._number:
            return
        from glnn.exceptions import StoppedError

        stopped = StoppedError(f"interrupted. {self._advice}")
        stopped.code = 128 + self._number
        raise stopped

    def watching(self, watch: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return a function for events of the work, each of which is a place to end."""

        def told(event: Any) -> None:
            self.check()
            watch(event)

        return told

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self._number:
            raise KeyboardInterrupt
        self._number = number
        print("glnn: ending after this step; once more ends at once", file=sys.stderr, flush=True)
