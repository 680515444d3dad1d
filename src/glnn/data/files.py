"""Reading and writing files safely.

Parser errors become one :class:`DataFormatError`. Files are written to a temporary file and moved
into place; folders are locked by their writer and replaced as a whole.
"""

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
import warnings
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

from glnn.exceptions import DataFormatError, GlnnError, InputError, OutputError

MAX_TEXT_BYTES = 2**32  # 4 GiB
SMALL_BYTES = 2**28  # an archive that unpacks to more than 256 MiB ...
MAX_EXPANSION = 250  # ... may unpack to at most this multiple of its size


def one_line(text: object, limit: int = 200) -> str:
    r"""Return the text on one line, shortened to ``limit`` characters."""
    flat = " ".join(str(text).split())
    flat = "".join(c if c.isprintable() else "?" for c in flat)
    return flat if len(flat) <= limit else flat[: limit - 3] + "..."


def quote(value: object, limit: int = 40) -> str:
    """Quote a value for a message: shortened, with unprintable characters escaped."""
    text = str(value)
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


def quote_some(values: Sequence[object], most: int = 3) -> str:
    """Quote the first values of a list for a message."""
    return ", ".join(map(quote, values[:most])) + ", ..." * (len(values) > most)


@contextlib.contextmanager
def wrap_parse_errors(path: Path, format_name: str) -> Iterator[None]:
    """Turn any error that a parser raises inside the block into a :class:`DataFormatError`.

    Its warnings (odd escapes, styles of a workbook, old headers) are ignored.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except GlnnError:
        raise
    except Exception as error:  # parsers raise errors of many kinds on a damaged file
        reason = one_line(error) or type(error).__name__
        if isinstance(error, OSError) and error.strerror:  # of the system, not of a parser
            reason = one_line(error.strerror)
            raise DataFormatError(f"{quote_path(path)} must be readable, got: {reason}.") from error
        raise DataFormatError(
            f"{quote_path(path)} must be a whole {format_name} file, got: {reason}. "
            "Export or download it again."
        ) from error


def quote_path(path: Path) -> str:
    """Return the path on one line, shortened, for a message."""
    return one_line(path, limit=300)


def safe_file_name(text: str) -> str:
    """Turn any text into a file name without path separators or leading dots."""
    flat = "".join(c if c.isalnum() or c in " ._-" else "_" for c in text[:80])
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
        raise DataFormatError(
            f"{quote_path(path)} must be UTF-8 text, got another encoding at byte {error.start}. "
            "Save it again as UTF-8 (in a spreadsheet: 'CSV UTF-8')."
        ) from error


@contextlib.contextmanager
def atomic_write(path: Path, mode: str = "w") -> Iterator[IO[Any]]:
    """Open a temporary file in the same folder; move it to ``path`` when the block succeeds.

    Text is UTF-8; line ends are not translated. If the block fails, an old file stays unchanged.
    """
    if not path.parent.is_dir():
        raise InputError(f"the folder of {quote_path(path)} must exist, got none. Create it first.")
    encoding, newline = (None, None) if "b" in mode else ("utf-8", "")
    temporary = path.with_name(f".{path.name[:50]}.{secrets.token_hex(8)}.part")
    try:
        with wrap_write_errors(path):
            exclusive = mode.replace("w", "x")
            with temporary.open(exclusive, encoding=encoding, newline=newline) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def write_file(path: Path, content: str | bytes) -> None:
    """Write text as UTF-8, or bytes, to a file atomically."""
    with atomic_write(path, "w" if isinstance(content, str) else "wb") as file:
        file.write(content)


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


@contextlib.contextmanager
def wrap_write_errors(path: Path) -> Iterator[None]:
    """Turn an error of the system inside the block into the one of :func:`write_error`."""
    try:
        yield
    except OSError as error:
        if isinstance(error, GlnnError):
            raise
        raise write_error(path, error) from error


def make_folder(folder: Path) -> Path:
    """Make a folder and its parents, unless it is there, and return it."""
    with wrap_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


# Locks


def sibling_path(folder: Path, kind: str) -> Path:
    """Return the hidden path next to a folder or file that is used while it is written."""
    return folder.with_name(f".{folder.name}.glnn-{kind}")


class WriterLock(FileLock):
    """Exclusive lock of a folder for one writer, a context manager; it ends with its process."""

    def release(self, force: bool = False) -> None:
        """Release the lock and remove its file; a second call does nothing."""
        if self.is_locked:  # another process that waits for the file tries again on a new one
            with contextlib.suppress(OSError):  # the parent folder may be gone
                Path(self.lock_file).unlink()
        super().release(force=True)  # it is acquired twice if used as a context manager


def lock_folder(folder: Path) -> WriterLock:
    """Lock a folder, or raise an :class:`OutputError` if another process has locked it.

    The folder need not exist; its parents are created.
    """
    lock = WriterLock(sibling_path(folder, "lock"), thread_local=False)
    with wrap_write_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise OutputError(
                f"{quote_path(folder)} must have one writer at a time, got a second: "
                "another process is writing there. Wait for it, or name another folder."
            ) from None
    return lock


# Replacing a folder as a whole

_RENAME_EXCHANGE, _AT_FDCWD = 2, -100  # constants of Linux's renameat2


@contextlib.contextmanager
def replace_folder(folder: Path, own: Collection[str]) -> Iterator[Path]:
    """Yield an empty folder that replaces ``folder`` when the block succeeds.

    The caller holds the lock of the folder (:func:`~glnn.data.files.lock_folder`), which need not
    exist. ``own`` are the names of the files that the block may write; all other files of the old
    folder are kept.
    """
    folder = folder.resolve()
    remove_leftovers(folder)
    new, old = sibling_path(folder, "new"), sibling_path(folder, "old")

    def keep_others(path: str, names: list[str]) -> Collection[str]:
        return own if path == str(folder) else ()

    try:
        with wrap_write_errors(folder):
            new.mkdir(parents=True)
            yield new
            if folder.is_dir():
                shutil.copytree(folder, new, True, keep_others, _link_or_copy, dirs_exist_ok=True)
            sync_folder(new)
            if not folder.exists():
                new.rename(folder)
            elif not exchange_folders(new, folder):
                folder.rename(old)
                new.rename(folder)
            sync_folder(folder.parent)
    finally:
        with contextlib.suppress(OSError):  # the next writer tries again
            remove_leftovers(folder)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target, follow_symlinks=False)


def exchange_folders(one: Path, other: Path) -> bool:
    """Exchange two folders atomically; return ``False`` if the system or disk cannot."""
    move = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if move is None:
        return False
    if move(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number))


def remove_leftovers(folder: Path) -> None:
    """Remove what a killed writer has left next to a folder; the caller holds its lock."""
    old = sibling_path(folder, "old")
    with wrap_write_errors(folder):
        if old.is_dir() and not folder.exists():
            old.rename(folder)  # killed between the two moves of replace_folder
        for path in (old, sibling_path(folder, "new")):
            if path.is_dir():
                shutil.rmtree(path)


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
    around_cwd = Path.cwd().is_relative_to(folder.resolve())
    return os.access(folder, os.W_OK | os.X_OK) and not os.path.ismount(folder) and not around_cwd
