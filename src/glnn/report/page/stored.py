"""The page's data in a file, so that a run can be shown and compared again without its source.

Dataclasses become JSON objects with their class's name, arrays and sparse matrices references to
members of the same npz archive; nothing is pickled.
"""

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.data.files import shown_path
from glnn.data.npz import NpzFile, write_npz
from glnn.exceptions import DataFormatError, InputError
from glnn.report.page import data

_KNOWN = {
    kind.__name__: kind
    for kind in vars(data).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind)
}
_FORMAT = "glnn page 1"


def write_page(path: Path, page: data.PageData) -> None:
    """Write the data of a page."""
    arrays: dict[str, np.ndarray] = {}
    words = json.dumps({"format": _FORMAT, "page": _encoded(page, arrays)})
    write_npz(path, {"words": np.frombuffer(words.encode(), np.uint8), **arrays})


def read_page(path: Path) -> data.PageData:
    """Read what :func:`write_page` wrote; anything else is refused in one line."""
    if not path.is_file():
        raise InputError(
            f"{shown_path(path)} must exist, got nothing. Name the folder of a run that "
            "glnn fit has written."
        )
    try:
        with NpzFile(path) as archive:
            words = json.loads(archive.read("words", kinds="u", ndim=1).tobytes())
            if words["format"] != _FORMAT:
                raise ValueError("unknown format")
            page = _decoded(words["page"], archive)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataFormatError(
            f"{shown_path(path)} must be the page data of a run, got: {str(error) or 'no data'}."
        ) from None
    if not isinstance(page, data.PageData):
        raise DataFormatError(f"{shown_path(path)} must be the page data of a run.")
    return page


def _encoded(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return {"class": type(value).__name__} | {
            "fields": {name: _encoded(part, arrays) for name, part in parts.items()}
        }
    if sp.issparse(value):
        matrix = sp.csr_matrix(value)
        kept = [_kept(part, arrays) for part in (matrix.data, matrix.indices, matrix.indptr)]
        return {"csr": kept, "shape": list(matrix.shape)}
    if isinstance(value, np.ndarray):
        return _kept(value, arrays)
    if isinstance(value, Mapping):
        return {"map": {str(name): _encoded(part, arrays) for name, part in value.items()}}
    if isinstance(value, list | tuple):
        return [_encoded(part, arrays) for part in value]
    return value


def _kept(array: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, Any]:
    name = f"a{len(arrays)}"
    arrays[name] = array
    return {"array": name, "kinds": array.dtype.kind, "ndim": array.ndim}


def _decoded(value: Any, archive: NpzFile) -> Any:
    if isinstance(value, list):
        return tuple(_decoded(part, archive) for part in value)
    if not isinstance(value, dict):
        return value
    if "class" in value:
        fields = {name: _decoded(part, archive) for name, part in value["fields"].items()}
        return _KNOWN[value["class"]](**fields)
    if "csr" in value:
        parts = tuple(_decoded(part, archive) for part in value["csr"])
        return sp.csr_matrix(parts, shape=tuple(value["shape"]))
    if "array" in value:
        return archive.read(value["array"], kinds=value["kinds"], ndim=value["ndim"])
    return {name: _decoded(part, archive) for name, part in value["map"].items()}
