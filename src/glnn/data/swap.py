"""A folder replaced as a whole: written beside, then put in place in one move.

Until that move the old folder is as it was, after it the new one is there with all its files on
the disk. So a full disk, a kill or a power cut leaves one of the two, never a mixture.
"""

import contextlib
import ctypes
import errno
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from glnn.data.files import cannot_write, shown_path, sync_folder
from glnn.data.lock import beside
from glnn.exceptions import OutputError

_EXCHANGE, _HERE = 2, -100
"""Linux's ``RENAME_EXCHANGE`` and ``AT_FDCWD``."""
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


@contextlib.contextmanager
def swapped(folder: Path, own: Collection[str]) -> Iterator[Path]:
    """Give an empty folder that takes the place of ``folder`` when the block succeeds.

    The caller holds the lock of the folder (:func:`~glnn.data.lock.only_writer`).

    Parameters
    ----------
    folder
        What is replaced; it need not exist.
    own
        Names of the files that the block may write; whatever else lies in the old folder is kept.
    """
    folder = folder.resolve()
    remove_leftovers(folder)
    new = beside(folder, "new")
    try:
        new.mkdir(parents=True)
        try:
            yield new
            if folder.is_dir():
                shutil.copymode(folder, new)
                _keep_others(folder, new, own)
            sync_folder(new)
            _put(new, folder)
            sync_folder(folder.parent)
            if new.is_dir():  # the old folder, now here
                _keep_others(new, folder, own)
        finally:
            with contextlib.suppress(OSError):  # the next writer tries again
                remove_leftovers(folder)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise cannot_write(folder, error) from error


def remove_leftovers(folder: Path) -> None:
    """Clear what a killed writer has left beside a folder; the caller holds its lock."""
    old = beside(folder, "old")
    try:
        if old.is_dir() and _is_free(folder):
            old.rename(folder)  # killed between two moves, where the system has no exchange
        for path in (old, beside(folder, "new")):
            if path.is_dir():
                shutil.rmtree(path)
    except OSError as error:
        raise cannot_write(folder, error) from error


def check_replaceable(folder: Path) -> None:
    """Refuse a folder that cannot be moved; see :func:`is_replaceable`."""
    if not is_replaceable(folder):
        raise OutputError(
            f"{shown_path(folder)} must be a folder that can be replaced as a whole, got one that "
            "is read-only, the root of a disk, or the one this command runs in. "
            "Name another, or one inside it."
        )


def is_replaceable(folder: Path) -> bool:
    """Return whether a folder can be moved: neither read-only nor mounted nor the one we are in."""
    if not folder.is_dir():
        return True
    may_write = os.access(folder, os.W_OK | os.X_OK)
    return may_write and not os.path.ismount(folder) and not _is_around(folder)


def _is_around(folder: Path) -> bool:
    return Path.cwd().is_relative_to(folder.resolve())


def _put(new: Path, folder: Path) -> None:
    """Move ``new`` to the place of ``folder``; what was there comes to the place of ``new``."""
    if _is_free(folder):
        new.rename(folder)
    elif not exchanged(new, folder):
        old = beside(folder, "old")
        folder.rename(old)
        new.rename(folder)
        sync_folder(folder.parent)
        old.rename(new)


def _is_free(folder: Path) -> bool:
    return not folder.exists() or not any(folder.iterdir())


def exchanged(one: Path, other: Path) -> bool:
    """Exchange two folders in one move; return whether this system and disk can."""
    move = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if move is None:
        return False
    if move(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _NO_EXCHANGE:
        return False
    raise OSError(number, os.strerror(number))


def _keep_others(source: Path, target: Path, own: Collection[str]) -> None:
    """Bring what a run does not write from one folder to another, without a copy if possible."""
    for path in source.iterdir():
        there = target / path.name
        if path.name in own or os.path.lexists(there):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, there, symlinks=True, copy_function=_linked)
        else:
            _linked(str(path), str(there))


def _linked(source: str, target: str) -> str:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a disk without hard links
        shutil.copy2(source, target, follow_symlinks=False)
    return target
