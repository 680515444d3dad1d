"""The journal of a search for parameters: Optuna's file, which a killed process does not spoil."""

import json
import os
from pathlib import Path
from typing import Any

from glnn.data.files import cannot_write, shown_path
from glnn.data.optional import need
from glnn.exceptions import DataFormatError

_NO_JOURNAL = (ValueError, KeyError, TypeError, IndexError, AttributeError, AssertionError)


class FileLock:
    """The system's lock on the journal itself: it ends with its process, whatever ends that.

    Parameters
    ----------
    path
        The journal, which is made if it is not there.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._handle = path, -1

    def acquire(self) -> bool:
        """Wait until no other process writes."""
        self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            import fcntl

            fcntl.flock(self._handle, fcntl.LOCK_EX)
        except (ImportError, OSError):  # a system or a folder without locks
            pass
        return True

    def release(self) -> None:
        """Let others write."""
        os.close(self._handle)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


def open_journal(path: Path) -> Any:
    """Return Optuna's storage of a journal, made if it is not there.

    A last line that was cut off, as by a full disk or a power failure, is removed: its trial is
    run again. A file that is no journal is refused in one line.
    """
    optuna, journal = need("optuna"), need("optuna.storages.journal")
    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock:
            _cut_to_whole_lines(path)
    except OSError as error:
        raise cannot_write(path, error) from error
    try:
        for line in path.read_bytes().splitlines():
            json.loads(line)  # Optuna would take a last one that is none for one being written
        return optuna.storages.JournalStorage(journal.JournalFileBackend(str(path), lock))
    except _NO_JOURNAL:
        raise DataFormatError(
            f"{shown_path(path)} must be the journal of a search, got something else. "
            "Remove it to search anew, or name another folder."
        ) from None


def _cut_to_whole_lines(path: Path) -> None:
    with path.open("rb+") as file:
        whole = file.read()
        end = whole.rfind(b"\n") + 1
        if end < len(whole):
            file.truncate(end)
