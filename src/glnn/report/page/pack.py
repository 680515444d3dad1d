"""Arrays and words as one compact text that the page's script unpacks."""

import base64
import gzip
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

_KINDS = {"uint8": 1, "uint16": 2, "uint32": 4, "float32": 4}


def packed(words: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    """Return Base64 of gzip of: header length, header, words, arrays, each on a multiple of four.

    Parameters
    ----------
    words
        Anything JSON can hold.
    arrays
        Arrays of ``uint8``, ``uint16``, ``uint32`` or ``float32``, stored little-endian.

    Examples
    --------
    >>> words, arrays = unpacked(packed({"a": 1}, {"b": np.arange(3, dtype=np.uint16)}))
    >>> words, arrays["b"].tolist()
    ({'a': 1}, [0, 1, 2])
    """
    blocks = [json.dumps(words, allow_nan=False).encode()]
    table: list[dict[str, Any]] = [{"name": "words", "kind": "json", "shape": [len(blocks[0])]}]
    for name, array in arrays.items():
        kind = array.dtype.name
        if kind not in _KINDS:
            raise TypeError(f"{name} must be one of {', '.join(_KINDS)}, got {kind}.")
        table.append({"name": name, "kind": kind, "shape": list(array.shape)})
        blocks.append(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())
    header = _padded(json.dumps(table).encode())
    whole = len(header).to_bytes(4, "little") + header + b"".join(map(_padded, blocks))
    return base64.b64encode(gzip.compress(whole, 6, mtime=0)).decode("ascii")


def unpacked(text: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return what :func:`packed` was given, as the page's script reads it."""
    whole = gzip.decompress(base64.b64decode(text))
    at = 4 + int.from_bytes(whole[:4], "little")
    words: dict[str, Any] = {}
    arrays: dict[str, np.ndarray] = {}
    for entry in json.loads(whole[4:at]):
        n_entries = int(np.prod(entry["shape"]))
        size = n_entries * _KINDS.get(entry["kind"], 1)
        block = whole[at : at + size]
        if entry["kind"] == "json":
            words = json.loads(block)
        else:
            kind = np.dtype(entry["kind"]).newbyteorder("<")
            arrays[entry["name"]] = np.frombuffer(block, kind).reshape(entry["shape"])
        at += size + -size % 4
    return words, arrays


def scaled_to(values: np.ndarray, dtype: type[np.unsignedinteger[Any]], top: float) -> np.ndarray:
    """Return values between 0 and ``top`` as whole numbers that fill the type's range.

    Examples
    --------
    >>> scaled_to(np.array([0.0, 0.5, 1.0, 2.0]), np.uint8, 1.0).tolist()
    [0, 128, 255, 255]
    """
    most = float(np.iinfo(dtype).max)
    share = np.clip(np.nan_to_num(values) / (top or 1.0), 0.0, 1.0)
    return np.asarray(np.rint(share * most).astype(dtype))


def _padded(block: bytes) -> bytes:
    return block + b" " * (-len(block) % 4)
