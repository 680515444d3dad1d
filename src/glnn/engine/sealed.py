"""Pages of JSON that notice when they were changed, and digests of what an answer depends on."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from glnn.data.files import atomic_write, one_line, shown, shown_path
from glnn.exceptions import CheckpointError, GlnnError

_SEAL = "page_sha256"
_MOST_BYTES = 2**30
_UNPACK_ERRORS = (
    LookupError,
    TypeError,
    ValueError,
    RuntimeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    AssertionError,
)


def write_sealed(path: Path, kind: str, version: int, page: Mapping[str, Any]) -> None:
    """Write a page of JSON whole or not at all, with its kind, version and digest."""
    page = {"format": kind, "version": version, **page}
    with atomic_write(path) as file:
        file.write(json.dumps({_SEAL: _digest(page), **page}, indent=1))


def read_sealed(
    path: Path, kind: str, version: int, advice: str = "Remove its folder to start anew"
) -> dict[str, Any]:
    """Read a page that :func:`write_sealed` wrote; refuse anything else in one line.

    Parameters
    ----------
    path
        The file.
    kind, version
        What it must be.
    advice
        What to do where it is not.
    """
    name = shown_path(path)
    if path.is_file() and path.stat().st_size > _MOST_BYTES:
        raise CheckpointError(f"{name} must have at most {_MOST_BYTES:,} bytes. {advice}.")
    try:
        page = {**json.loads(path.read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{name} cannot be read: {type(error).__name__}. {advice}.") from None
    if page.get("format") != kind or page.get("version") != version:
        raise CheckpointError(
            f"{name} must be a {kind} of format {version}, got {shown(page.get('version'))}. "
            f"{advice}, or use the version of glnn that wrote it."
        )
    if page.pop(_SEAL, None) != _digest(page):
        raise CheckpointError(f"{name} was damaged. {advice}.")
    return page


@contextmanager
def unpacking(path: Path) -> Iterator[None]:
    """Say in one line that what was read does not hold what it must, whatever it lacks."""
    try:
        yield
    except GlnnError:
        raise
    except _UNPACK_ERRORS as error:
        reason = one_line(error) or "no detail"
        raise CheckpointError(
            f"{shown_path(path)} was damaged or is not complete: {type(error).__name__}: {reason}."
        ) from None


def digest_of(facts: str, arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the SHA-256 digest of a text and of arrays with their names, types and shapes."""
    digest = hashlib.sha256(facts.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def _digest(page: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(page, sort_keys=True).encode()).hexdigest()
