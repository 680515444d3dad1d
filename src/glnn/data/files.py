"""Reading and writing files with care: whole files or none, and one clear line when one is bad."""

import contextlib
import csv
import os
import secrets
import struct
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from glnn.exceptions import DataFormatError, GlnnError, InputError, OutputError

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
