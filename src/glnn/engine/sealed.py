"""Pages of JSON that notice when they were changed, and digests of what an answer depends on."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from glnn.data.files import atomic_write, shown, shown_path
from glnn.exceptions import CheckpointError

_SEAL = "page_sha256"
_MOST_BYTES = 2**30


def write_sealed(path: Path, kind: str, version: int, page: Mapping[str, Any]) -> None:
    """Write a page of JSON whole or not at all, with its kind, version and digest."""
    page = {"format": kind, "version": version, **page}
    with atomic_write(path) as file:
        file.write(json.dumps({_SEAL: _digest(page), **page}, indent=1))


def read_sealed(path: Path, kind: str, version: int) -> dict[str, Any]:
    """Read a page that :func:`write_sealed` wrote; refuse anything else in one line."""
    name = shown_path(path)
    if path.is_file() and path.stat().st_size > _MOST_BYTES:
        raise CheckpointError(f"{name} must have at most {_MOST_BYTES:,} bytes. Remove its folder.")
    try:
        page = {**json.loads(path.read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(
            f"{name} cannot be read: {type(error).__name__}. Remove its folder to start anew."
        ) from None
    if page.get("format") != kind or page.get("version") != version:
        raise CheckpointError(
            f"{name} must be a {kind} of format {version}, got {shown(page.get('version'))}. "
            "Remove its folder, or use the version of glnn that wrote it."
        )
    if page.pop(_SEAL, None) != _digest(page):
        raise CheckpointError(f"{name} was damaged. Remove its folder to start anew.")
    return page


def digest_of(facts: str, arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the SHA-256 digest of a text and of arrays with their names, types and shapes."""
    digest = hashlib.sha256(facts.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def _digest(page: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(page, sort_keys=True).encode()).hexdigest()
