"""Workers that end with the process that started them, even if that was killed."""

import functools
import os
import threading
import time

_EVERY = 0.5
"""Seconds between two looks at the parent."""


def end_with(parent: int) -> bool:
    """Let this process end when ``parent`` does, if it is a child of it; return whether it is.

    A killed process cannot tell its workers: without this they would finish their cells, and a
    second run would share the cores with them.

    Examples
    --------
    >>> import os
    >>> end_with(os.getpid())  # nobody is a child of oneself
    False
    """
    if os.getppid() != parent:
        return False
    _watch(parent)
    return True


@functools.cache
def _watch(parent: int) -> None:
    threading.Thread(target=_wait_for_end, args=(parent,), daemon=True).start()


def _wait_for_end(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY)
    os._exit(1)
