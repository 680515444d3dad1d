"""Reading and writing files safely.

Parser errors become one :class:`DataFormatError`. Files are written to a temporary file and moved
into place; folders are locked by their writer and replaced as a whole.
"""

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

from glnn._utils import import_optional
from glnn.exceptions import DataFormatError, GlnnError, InputError, OutputError

MAX_TEXT_BYTES = 2**32  # 4 GiB

# What parsers of the standard library, NumPy and SciPy raise on a damaged file.
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


def quote(value: object, limit: int = 40) -> str:
    """Quote a value for a message: shortened, with unprintable characters escaped."""
    text = str(value)
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


@contextlib.contextmanager
def wrap_parse_errors(path: Path, format_name: str) -> Iterator[None]:
    """Turn any error that a parser raises inside the block into a :class:`DataFormatError`."""
    try:
        yield
    except GlnnError:
        raise
    except OSError as error:
        reason = one_line(error.strerror or error)
        raise DataFormatError(f"{quote_path(path)} must be readable, got: {reason}.") from error
    except _PARSE_ERRORS as error:
        reason = one_line(error) or type(error).__name__
        raise DataFormatError(
            f"{quote_path(path)} must be a whole {format_name} file, got: {reason}. "
            "Export or download it again."
        ) from error


@contextlib.contextmanager
def ignore_warnings() -> Iterator[None]:
    """Ignore warnings inside the block, such as those on unknown escapes in a parsed file."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def quote_path(path: Path) -> str:
    """Return the path on one line, shortened, for a message."""
    return one_line(path, limit=300)


def safe_file_name(text: str, limit: int = 80) -> str:
    """Turn any text into a file name without path separators or leading dots.

    Examples
    --------
    >>> safe_file_name("../../esc"), safe_file_name("people of 2024"), safe_file_name("..")
    ('esc', 'people of 2024', 'data')
    """
    flat = "".join(c if c.isalnum() or c in " ._-" else "_" for c in text[:limit])
    return flat.lstrip(" ._-").rstrip(" .") or "data"


def check_file(path: Path, *, max_bytes: int = MAX_TEXT_BYTES) -> Path:
    """Check that the path is a file of at most ``max_bytes``, and return it; nothing is read."""
    if not path.is_file():
        what = "a folder" if path.is_dir() else "nothing there"
        raise InputError(
            f"{quote_path(path)} must be an existing file, got {what}. Check the path."
        )
    size = path.stat().st_size
    if size > max_bytes:
        raise DataFormatError(
            f"{quote_path(path)} must be at most {max_bytes:,} bytes, got {size:,}. "
            "Convert it to npz, or split it."
        )
    return path


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file, without a byte order mark."""
    check_file(path)
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise utf8_error(path, error) from error


def utf8_error(path: Path, error: UnicodeDecodeError) -> DataFormatError:
    """Return the error for text that is not UTF-8, with the place of the first bad byte."""
    return DataFormatError(
        f"{quote_path(path)} must be UTF-8 text, got another encoding at byte {error.start}. "
        "Save it again as UTF-8 (in a spreadsheet: 'CSV UTF-8')."
    )


@contextlib.contextmanager
def atomic_write(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file in the same folder; move it to ``path`` when the block succeeds.

    Text is UTF-8; line ends are not translated. If the block fails, an old file stays unchanged.
    """
    if not path.parent.is_dir():
        raise InputError(f"the folder of {quote_path(path)} must exist, got none. Create it first.")
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": ""}
    handle, temporary = _open_temporary(path)
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
        raise write_error(path, error) from error
    finally:
        Path(temporary).unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk; does nothing outside POSIX systems."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_error(path: Path, error: OSError) -> OutputError:
    """Return the error for a file or folder that could not be written, with the reason."""
    reason = one_line(error.strerror or error)
    return OutputError(
        f"{quote_path(path)} must be writable, got: {reason}. Its old content is unchanged."
    )


def _open_temporary(path: Path) -> tuple[int, str]:
    temporary = path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}.part")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
        return os.open(temporary, flags, 0o666), str(temporary)  # the umask applies
    except OSError as error:
        raise write_error(path, error) from error


# Lock of a folder


def sibling_path(folder: Path, kind: str) -> Path:
    """Return the hidden path next to a folder that is used while the folder is written.

    Examples
    --------
    >>> sibling_path(Path("runs/wine"), "lock").as_posix()
    'runs/.wine.glnn-lock'
    """
    return folder.with_name(f".{folder.name}.glnn-{kind}")


class WriterLock:
    """Exclusive lock of a folder for one writer; see :meth:`acquire`.

    The lock is ``flock`` on an empty file. If its process is killed, the system drops the lock
    and only the file is left; the next writer reuses and removes it.
    """

    def __init__(self, path: Path, handle: int) -> None:
        self._path, self._handle = path, handle

    @classmethod
    def acquire(cls, folder: Path) -> "WriterLock":
        """Lock a folder, or raise an :class:`OutputError` if another process has locked it.

        The folder need not exist; its parents are created.
        """
        path = sibling_path(folder, "lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            while True:
                handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
                if not _try_lock(handle):
                    os.close(handle)
                    raise OutputError(
                        f"{quote_path(folder)} must have one writer at a time, got a second: "
                        "another process is writing there. Wait for it, or name another folder."
                    )
                if _is_same_file(path, handle):
                    return cls(path, handle)
                os.close(handle)  # the last holder has just removed the file: try again
        except OutputError:
            raise
        except OSError as error:
            raise write_error(folder, error) from error

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._handle >= 0:
            with contextlib.suppress(OSError):  # the parent folder may be gone
                self._path.unlink(missing_ok=True)
            os.close(self._handle)
            self._handle = -1


@contextlib.contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder inside the block."""
    lock = WriterLock.acquire(folder)
    try:
        yield
    finally:
        lock.release()


def _try_lock(handle: int) -> bool:
    """Lock an open file without waiting; return ``False`` if another process has locked it."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a network folder that does not support locks
        return True
    return True


def _is_same_file(path: Path, handle: int) -> bool:
    """Return whether the path still refers to the open file."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


# Replacing a folder as a whole

_RENAME_EXCHANGE, _AT_FDCWD = 2, -100  # constants of Linux's renameat2
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)


@contextlib.contextmanager
def replace_folder(folder: Path, own: Collection[str]) -> Iterator[Path]:
    """Yield an empty folder that replaces ``folder`` when the block succeeds.

    The caller holds the lock of the folder (:func:`~glnn.data.files.lock_folder`), which need not
    exist. ``own`` are the names of the files that the block may write; all other files of the old
    folder are kept.
    """
    folder = folder.resolve()
    remove_leftovers(folder)
    new = sibling_path(folder, "new")
    try:
        new.mkdir(parents=True)
        try:
            yield new
            if folder.is_dir():
                shutil.copymode(folder, new)
                _carry_over(folder, new, own)
            sync_folder(new)
            _move_into_place(new, folder)
            sync_folder(folder.parent)
            if new.is_dir():  # after the exchange this is the old folder
                _carry_over(new, folder, own)
        finally:
            with contextlib.suppress(OSError):  # the next writer tries again
                remove_leftovers(folder)
    except OSError as error:
        if isinstance(error, OutputError):
            raise
        raise write_error(folder, error) from error


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed writer has left next to a folder; the caller holds its lock."""
    old = sibling_path(folder, "old")
    try:
        if old.is_dir() and _is_missing_or_empty(folder):
            old.rename(folder)  # killed between the two moves of _move_into_place
        for path in (old, sibling_path(folder, "new")):
            if path.is_dir():
                shutil.rmtree(path)
    except OSError as error:
        raise write_error(folder, error) from error


def check_replaceable(folder: Path) -> None:
    """Raise if a folder cannot be moved; see :func:`is_replaceable`."""
    if not is_replaceable(folder):
        raise OutputError(
            f"{quote_path(folder)} must be a folder that can be replaced as a whole, got one that "
            "is read-only, a mount point, or the working directory. "
            "Name another, or one inside it."
        )


def is_replaceable(folder: Path) -> bool:
    """Return whether a folder can be moved: not read-only, no mount point, not around the cwd."""
    if not folder.is_dir():
        return True
    may_write = os.access(folder, os.W_OK | os.X_OK)
    return may_write and not os.path.ismount(folder) and not _contains_cwd(folder)


def _contains_cwd(folder: Path) -> bool:
    return Path.cwd().is_relative_to(folder.resolve())


def _move_into_place(new: Path, folder: Path) -> None:
    """Move ``new`` to ``folder``; an old folder that is not empty is moved to ``new``."""
    if _is_missing_or_empty(folder):
        new.rename(folder)
    elif not exchange_folders(new, folder):
        old = sibling_path(folder, "old")
        folder.rename(old)
        new.rename(folder)
        sync_folder(folder.parent)
        old.rename(new)


def _is_missing_or_empty(folder: Path) -> bool:
    return not folder.exists() or not any(folder.iterdir())


def exchange_folders(one: Path, other: Path) -> bool:
    """Exchange two folders atomically; return ``False`` if the system or disk cannot."""
    move = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if move is None:
        return False
    if move(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    raise OSError(number, os.strerror(number))


def _carry_over(source: Path, target: Path, own: Collection[str]) -> None:
    """Hard-link or copy everything but the ``own`` files from one folder to another."""
    for path in source.iterdir():
        there = target / path.name
        if path.name in own or os.path.lexists(there):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, there, symlinks=True, copy_function=_link_or_copy)
        else:
            _link_or_copy(str(path), str(there))


def _link_or_copy(source: str, target: str) -> str:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target, follow_symlinks=False)
    return target


# Journal of a parameter search

_NO_JOURNAL = (ValueError, KeyError, TypeError, IndexError, AttributeError, AssertionError)


class FileLock:
    """Lock on the journal file, which is created if it is missing; it ends with its process."""

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
        """Release the lock."""
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
    optuna, journal = import_optional("optuna"), import_optional("optuna.storages.journal")
    lock = FileLock(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock:
            _cut_to_whole_lines(path)
    except OSError as error:
        raise write_error(path, error) from error
    try:
        for line in path.read_bytes().splitlines():
            json.loads(line)  # Optuna would take a last one that is none for one being written
        return optuna.storages.JournalStorage(journal.JournalFileBackend(str(path), lock))
    except _NO_JOURNAL:
        raise DataFormatError(
            f"{quote_path(path)} must be the journal of a search, got something else. "
            "Remove it to search anew, or name another folder."
        ) from None


def _cut_to_whole_lines(path: Path) -> None:
    with path.open("rb+") as file:
        whole = file.read()
        end = whole.rfind(b"\n") + 1
        if end < len(whole):
            file.truncate(end)
