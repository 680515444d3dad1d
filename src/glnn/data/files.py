"""Reading and writing files with care: whole files or none, and one clear line when one is bad."""

import contextlib
import csv
import ctypes
import errno
import json
import os
import secrets
import shutil
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from glnn._utils import need
from glnn.exceptions import DataFormatError, GlnnError, InputError, OutputError

# --- files: Reading and writing files with care: whole files or none, and one clear line when one

MAX_TEXT_BYTES = 2**32
"""The largest text file that is read: 4 GiB."""

# What parsers of the standard library, NumPy and SciPy raise on a file that is not what it says.
_PARSE_ERRORS = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    EOFError,
    MemoryError,
    NotImplementedError,
    RecursionError,
    RuntimeError,
    SyntaxError,
    csv.Error,
    expat.ExpatError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def one_line(text: object, limit: int = 200) -> str:
    r"""Return the text on one line, shortened to ``limit`` characters.

    Examples
    --------
    >>> one_line("a\n  b")
    'a b'
    """
    flat = " ".join(str(text).split())
    flat = "".join(c if c.isprintable() else "?" for c in flat)
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def shown(value: object, limit: int = 40) -> str:
    """Return the value quoted for a message, shortened, with unprintable characters escaped."""
    text = str(value)
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


@contextlib.contextmanager
def parsing(path: Path, format_name: str) -> Iterator[None]:
    """Turn whatever a parser raises on a bad file into one :class:`DataFormatError`."""
    try:
        yield
    except GlnnError:
        raise
    except OSError as error:
        reason = one_line(error.strerror or error)
        raise DataFormatError(f"{shown_path(path)} must be readable, got: {reason}.") from error
    except _PARSE_ERRORS as error:
        reason = one_line(error) or type(error).__name__
        raise DataFormatError(
            f"{shown_path(path)} must be a whole {format_name} file, got: {reason}. "
            "Export or download it again."
        ) from error


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Keep silent about what Python finds odd in the text of a file, such as unknown escapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def shown_path(path: Path) -> str:
    """Return the path for a message, on one line."""
    return one_line(path, limit=300)


def plain_name(text: str, limit: int = 80) -> str:
    """Return a text as a name of one file: whatever it says, it leads to no other folder.

    Examples
    --------
    >>> plain_name("../../esc"), plain_name("people of 2024"), plain_name("..")
    ('esc', 'people of 2024', 'data')
    """
    flat = "".join(c if c.isalnum() or c in " ._-" else "_" for c in text[:limit])
    return flat.lstrip(" ._-").rstrip(" .") or "data"


def check_file(path: Path, *, max_bytes: int = MAX_TEXT_BYTES) -> Path:
    """Return the path if it is a file of at most ``max_bytes``; nothing is read."""
    if not path.is_file():
        what = "a folder" if path.is_dir() else "nothing there"
        raise InputError(
            f"{shown_path(path)} must be an existing file, got {what}. Check the path."
        )
    size = path.stat().st_size
    if size > max_bytes:
        raise DataFormatError(
            f"{shown_path(path)} must be at most {max_bytes:,} bytes, got {size:,}. "
            "Convert it to npz, or split it."
        )
    return path


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, without a byte order mark."""
    check_file(path)
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from error


def not_utf8(path: Path, error: UnicodeDecodeError) -> DataFormatError:
    """Return the error that says where the text stops being UTF-8."""
    return DataFormatError(
        f"{shown_path(path)} must be UTF-8 text, got another encoding at byte {error.start}. "
        "Save it again as UTF-8 (in a spreadsheet: 'CSV UTF-8')."
    )


@contextlib.contextmanager
def atomic_write(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file beside ``path`` and move it there only when the block succeeds.

    Text is UTF-8 with line ends as written. A failure leaves the old file, if any, as it was.
    """
    if not path.parent.is_dir():
        raise InputError(f"the folder of {shown_path(path)} must exist, got none. Create it first.")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    handle, temporary = _open_beside(path)
    try:
        with os.fdopen(handle, mode, **text) as file:  # type: ignore[call-overload]
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
        sync_folder(path.parent)
    except OSError as error:
        if isinstance(error, GlnnError):
            raise
        raise cannot_write(path, error) from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cannot_write(path: Path, error: OSError) -> OutputError:
    """Return the error that says why a file or folder could not be written."""
    reason = one_line(error.strerror or error)
    return OutputError(
        f"{shown_path(path)} must be writable, got: {reason}. What was there before is as it was."
    )


def _open_beside(path: Path) -> tuple[int, str]:
    temporary = path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}.part")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        return os.open(temporary, flags, 0o666), str(temporary)  # the user's umask applies
    except OSError as error:
        raise cannot_write(path, error) from error


# --- lock: One writer at a time: a lock beside a folder, which the system drops when its holder di


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


# --- swap: A folder replaced as a whole: written beside, then put in place in one move

_EXCHANGE, _HERE = 2, -100
"""Linux's ``RENAME_EXCHANGE`` and ``AT_FDCWD``."""
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


@contextlib.contextmanager
def swapped(folder: Path, own: Collection[str]) -> Iterator[Path]:
    """Give an empty folder that takes the place of ``folder`` when the block succeeds.

    The caller holds the lock of the folder (:func:`~glnn.data.files.only_writer`).

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


# --- journal: The journal of a search for parameters: Optuna's file, which a killed process does n

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
