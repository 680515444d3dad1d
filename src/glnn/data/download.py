"""Fetching one published file: resumed when cut, checked before it counts, whole or not at all."""

import contextlib
import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glnn.data.files import one_line, shown_path
from glnn.data.origins import MAX_DOWNLOAD
from glnn.exceptions import DownloadError

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there, and the bytes there will be, if known."""

_CHUNK = 2**16
_SLOWEST = 256
"""Fewer bytes than this in one timeout's time count as a stall."""


class _CutError(Exception):
    """The connection ended before the file did; what came so far is kept."""


def download(
    url: str,
    target: Path,
    *,
    sha256: str | None,
    progress: Progress | None = None,
    timeout: float | int = 30.0,
    attempts: int = 4,
    max_bytes: int = MAX_DOWNLOAD,
) -> Path:
    """Fetch a file over HTTP and put it at ``target`` once its digest is right.

    What came before a cut stays in ``target`` + ``.part`` and is continued, now and in a later
    call.

    Parameters
    ----------
    url
        Address; redirects to other HTTP addresses are followed.
    target
        Where the file goes. Its folder is created.
    sha256
        What the bytes must hash to; ``None`` for an archive whose members are checked instead.
    progress
        Told how far it is.
    timeout
        Seconds without an answer, or with almost none, before giving up.
    attempts
        How often a cut connection is taken up again.
    max_bytes
        Anything larger is refused.

    Returns
    -------
    Path
        The target.

    Raises
    ------
    DownloadError
        One line: what failed and what to do.
    """
    part = target.with_name(target.name + ".part")
    patience = (timeout, attempts, max_bytes)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        continued = part.exists()
        _fetch_until_whole(url, part, patience, progress)
        if continued and not _is_right(part, sha256):  # its beginning may be of another file
            part.unlink()
            _fetch_until_whole(url, part, patience, progress)
        if not _is_right(part, sha256):
            part.unlink()
            raise DownloadError(
                f"{url} must have sha256 {str(sha256)[:16]}..., got another file. It was deleted; "
                "the origin may have changed, or something on the way altered it."
            )
        part.replace(target)
    except DownloadError:
        raise
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        reason = one_line(error.strerror or error)
        raise DownloadError(
            f"{shown_path(target)} must be writable, got: {reason}. Free some space or choose "
            "another folder with GLNN_DATA."
        ) from error
    return target


def _is_right(path: Path, sha256: str | None) -> bool:
    return sha256 is None or file_sha256(path) == sha256


def _fetch_until_whole(
    url: str, part: Path, patience: tuple[float | int, int, int], progress: Progress | None
) -> None:
    timeout, attempts, max_bytes = patience
    for attempt in range(1, attempts + 1):
        try:
            with _open(url, part, timeout) as answer:
                _receive(answer, part, timeout, max_bytes, progress)
            return
        except (_CutError, http.client.IncompleteRead) as error:
            if attempt == attempts:
                raise DownloadError(
                    f"{url} was cut off {attempts} times. Run the same command again: what came "
                    "so far is kept and continued."
                ) from error


def _open(url: str, part: Path, timeout: float | int) -> Any:
    """Ask for the file, or for the rest of it; every refusal becomes one clear line."""
    there = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "glnn"})
    if there:
        request.add_header("Range", f"bytes={there}-")
    try:
        return _opener().open(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and there:  # the part is not a beginning of what is there now
            part.unlink()
            return _open(url, part, timeout)
        raise DownloadError(f"{url} answered {error.code} {one_line(error.reason)}.") from error
    except TimeoutError as error:
        raise _too_slow(url, timeout) from error
    except (http.client.HTTPException, ValueError) as error:
        raise DownloadError(f"{url} gave no valid answer: {one_line(error)}.") from error
    except OSError as error:  # URLError is one, too
        reason = getattr(error, "reason", error)
        if isinstance(reason, TimeoutError):
            raise _too_slow(url, timeout) from error
        raise DownloadError(f"{url} cannot be reached: {one_line(reason)}.") from error


def _opener() -> urllib.request.OpenerDirector:
    """HTTP and HTTPS only: a redirect must not lead to a local file."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPRedirectHandler(),
        urllib.request.HTTPErrorProcessor(),
        urllib.request.UnknownHandler(),
    ):
        opener.add_handler(handler)
    return opener


def _too_slow(url: str, timeout: float | int) -> DownloadError:
    return DownloadError(
        f"{url} answered too slowly: almost nothing in {timeout:g} seconds. Try again later; what "
        "came so far is kept."
    )


def _receive(
    answer: Any, part: Path, timeout: float | int, max_bytes: int, progress: Progress | None
) -> None:
    """Append to the part file until the announced end."""
    start = _resumed_at(answer, part)
    length = answer.headers.get("Content-Length")
    total = start + int(length) if length is not None and length.isdigit() else None
    if total is not None and total > max_bytes:
        raise DownloadError(f"{answer.url} must be at most {max_bytes:,} bytes, got {total:,}.")
    done, mark, mark_time = start, start, time.monotonic()
    with part.open("ab" if start else "wb", buffering=0) as file:
        while chunk := _read(answer, timeout):
            file.write(chunk)
            done += len(chunk)
            if done > max_bytes:
                raise DownloadError(f"{answer.url} must be at most {max_bytes:,} bytes, got more.")
            if progress is not None:
                progress(done, total)
            if time.monotonic() - mark_time > timeout:
                if done - mark < _SLOWEST:
                    raise _too_slow(answer.url, timeout)
                mark, mark_time = done, time.monotonic()
    if total is not None and done < total:
        raise _CutError


def _read(answer: Any, timeout: float | int) -> bytes:
    try:
        return bytes(answer.read1(_CHUNK))
    except TimeoutError as error:
        raise _too_slow(answer.url, timeout) from error
    except (ConnectionError, http.client.HTTPException) as error:
        raise _CutError from error


def _resumed_at(answer: Any, part: Path) -> int:
    """Where the answer begins: after what is there if the server agreed to that, else at 0."""
    there = part.stat().st_size if part.exists() else 0
    said = str(answer.headers.get("Content-Range", ""))
    return there if answer.status == 206 and said.startswith(f"bytes {there}-") else 0


def file_sha256(path: Path) -> str:
    """Return the digest of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
