"""A folder of named arrays (safetensors) and a JSON page about them: saved models, no pickle."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from safetensors import SafetensorError
from safetensors.numpy import load, save

from glnn.data.files import atomic_write
from glnn.exceptions import CheckpointError, InputError

FORMAT = "glnn-model"
VERSION = 2
_ARRAYS, _PAGE = "model.safetensors", "model.json"


def write_archive(folder: Path, arrays: dict[str, np.ndarray], page: dict[str, Any]) -> None:
    """Write arrays, then the page that names their digest: a broken write is seen on reading."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} must be a folder that can be made, got: {error.strerror}. Name another."
        ) from None
    packed = save({name: np.asarray(array, order="C") for name, array in arrays.items()})
    page = {
        "format": FORMAT,
        "version": VERSION,
        "arrays_sha256": hashlib.sha256(packed).hexdigest(),
        **page,
    }
    text = json.dumps(page, indent=2, allow_nan=False)
    with atomic_write(folder / _ARRAYS, "wb") as file:
        file.write(packed)
    with atomic_write(folder / _PAGE) as file:
        file.write(text)


def read_archive(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what :func:`write_archive` wrote; refuse anything else in one line."""
    try:
        page = json.loads((folder / _PAGE).read_text(encoding="utf-8"))
        packed = (folder / _ARRAYS).read_bytes()
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CheckpointError(
            f"{folder} must be a folder with {_PAGE} and {_ARRAYS}, "
            f"but it could not be read: {type(error).__name__}."
        ) from None
    if not isinstance(page, dict) or page.get("format") != FORMAT:
        raise CheckpointError(f"{folder / _PAGE} is not a saved glnn model.")
    if page.get("version") != VERSION:
        raise CheckpointError(
            f"{folder} has model format {page.get('version')!r}, this glnn reads {VERSION}. "
            "Fit the model again, or use the version of glnn that saved it."
        )
    if hashlib.sha256(packed).hexdigest() != page.get("arrays_sha256"):
        raise CheckpointError(f"{folder / _ARRAYS} does not belong to {_PAGE} or was damaged.")
    try:
        return dict(load(packed)), page
    except SafetensorError as error:
        raise CheckpointError(f"{folder / _ARRAYS} cannot be read: {error}.") from None


def pack_matrix(name: str, matrix: Any, arrays: dict[str, np.ndarray]) -> None:
    """Add a dense or CSR matrix to the arrays under ``name``; ``None`` adds nothing."""
    if matrix is None:
        return
    if not sp.issparse(matrix):
        arrays[name] = np.asarray(matrix)
        return
    csr = sp.csr_matrix(matrix)
    arrays[f"{name}.data"] = csr.data
    arrays[f"{name}.indices"] = csr.indices
    arrays[f"{name}.indptr"] = csr.indptr
    arrays[f"{name}.shape"] = np.array(csr.shape, dtype=np.int64)


def unpack_matrix(name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return the matrix packed under ``name``, or ``None``."""
    if name in arrays:
        return arrays[name]
    if f"{name}.data" not in arrays:
        return None
    parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    return sp.csr_matrix(parts, shape=tuple(arrays[f"{name}.shape"]))
