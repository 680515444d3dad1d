"""One writer at a time: a lock beside a folder, which the system drops when its holder dies."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from glnn.data.files import cannot_write, shown_path
from glnn.exceptions import OutputError


def beside(folder: Path, kind: str) -> Path:
    """Return the hidden place beside a folder that is used while the folder is written.

    Examples
    --------
    >>> beside(Path("runs/wine"), "lock").as_posix()
    'runs/.wine.glnn-lock'
    """
    return folder.with_name(f".{folder.name}.glnn-{kind}")


class WriterLock:
    """The right to write a folder; get one from :meth:`taken`.

    The lock is the system's own (``flock``) on an empty file, so a process that is killed leaves
    no lock behind, only the file, which the next writer uses and removes.
    """

    def __init__(self, path: Path, handle: int) -> None:
        self._path, self._handle = path, handle

    @classmethod
    def taken(cls, folder: Path) -> "WriterLock":
        """Take the lock of a folder, or say in one line that another process writes there.

        Parameters
        ----------
        folder
            The folder, which need not exist; those above it are made.
        """
        path = beside(folder, "lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            while True:
                handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
                if not _is_locked(handle):
                    os.close(handle)
                    raise OutputError(
                        f"{shown_path(folder)} must have one writer at a time, got a second: "
                        "another process is writing there. Wait for it, or name another folder."
                    )
                if _is_at(path, handle):
                    return cls(path, handle)
                os.close(handle)  # its last holder has just removed it
        except OutputError:
            raise
        except OSError as error:
            raise cannot_write(folder, error) from error

    def release(self) -> None:
        """Let others write; a second call does nothing."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):  # the folder around it may be gone
                self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = -1


@contextlib.contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder inside the block."""
    lock = WriterLock.taken(folder)
    try:
        yield
    finally:
        lock.release()


def _is_locked(handle: int) -> bool:
    """Lock an open file; return whether that worked, or cannot be done on this system."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a network folder without locks
        return True
    return True


def _is_at(path: Path, handle: int) -> bool:
    """Return whether an open file is still the one at its path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False
