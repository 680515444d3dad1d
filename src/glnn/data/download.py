"""Fetching published files through pooch: checked before they count, whole or not at all."""

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from glnn.data.files import one_line, shown_path
from glnn.data.origins import MAX_DOWNLOAD
from glnn.exceptions import DownloadError

Progress = Callable[[int, int | None], None]
"""Called with the bytes that are there, and the bytes there will be, if known."""

_CHUNK = 2**16


class _Watch:
    """What pooch takes for a progress bar: tells how far it is, and stops what is too large."""

    def __init__(self, url: str, max_bytes: int, progress: Progress | None) -> None:
        self._url, self._max_bytes, self._progress = url, max_bytes, progress
        self._done, self.total = 0, 0

    def update(self, count: int) -> None:
        self._done = min(self._done + count, self.total) if self.total else self._done + count
        if max(self._done, self.total) > self._max_bytes:
            raise DownloadError(f"{self._url} must be at most {self._max_bytes:,} bytes, got more.")
        if self._progress is not None:
            self._progress(self._done, self.total or None)

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Nothing is open."""


def download(
    url: str,
    target: Path,
    *,
    sha256: str | None,
    progress: Progress | None = None,
    timeout: float | int = 30.0,
    attempts: int = 2,
    max_bytes: int = MAX_DOWNLOAD,
) -> Path:
    """Fetch a file over HTTP and put it at ``target`` once its digest is right.

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
        Seconds without an answer before giving up.
    attempts
        How often a file that came cut or altered is asked for.
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
    import pooch
    import requests

    pooch.get_logger().setLevel(logging.ERROR)  # errors are said by whoever called
    known = None if sha256 is None else f"sha256:{sha256}"
    fetcher = pooch.create(
        target.parent,
        url,
        registry={target.name: known},
        urls={target.name: url},
        retry_if_failed=attempts - 1,
    )
    watch: Any = _Watch(url, max_bytes, progress)
    loader = pooch.HTTPDownloader(progressbar=watch, chunk_size=_CHUNK, timeout=timeout)
    try:
        fetcher.fetch(target.name, downloader=loader)
    except DownloadError:
        raise
    except ValueError:
        raise DownloadError(
            f"{url} must have sha256 {str(sha256)[:16]}..., got another file. It was deleted; "
            "the origin may have changed, or something on the way altered or cut it."
        ) from None
    except requests.HTTPError as error:
        answer: Any = error.response
        raise DownloadError(f"{url} answered {answer.status_code} {answer.reason}.") from None
    except requests.Timeout:
        raise DownloadError(
            f"{url} answered too slowly: nothing in {timeout:g} seconds. Try again later."
        ) from None
    except requests.RequestException as error:
        raise DownloadError(f"{url} cannot be reached: {one_line(_cause(error))}.") from None
    except OSError as error:
        raise DownloadError(
            f"{shown_path(target)} must be writable, got: {one_line(error.strerror or error)}. "
            "Free some space or choose another folder with GLNN_DATA."
        ) from error
    return target


def _cause(error: BaseException) -> object:
    """Return the innermost reason of an error of requests, which is the one a person knows."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def file_sha256(path: Path) -> str:
    """Return the digest of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
