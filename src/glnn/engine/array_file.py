"""Named arrays in one safetensors file, written piece by piece, also from several processes.

The format is a header (its length in 8 bytes, then JSON with the type, shape and place of each
array) and the arrays' bytes one after the other. So a file can be written while its rows arrive,
and no process needs to hold an array that is spread over all.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from glnn.exceptions import InputError
from glnn.peers import ALONE, Peers

PIECE = 2**26
"""Bytes of an array that travel at a time."""

_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "int64": "I64",
    "int32": "I32",
    "uint8": "U8",
    "bool": "BOOL",
}


@dataclass(frozen=True, eq=False)
class Spread:
    """An array of which each process has a part; whole, they follow each other."""

    part: np.ndarray


Writes = Callable[[bytes | memoryview], object]
Arrays = Mapping[str, np.ndarray | Spread]


def write_arrays(write: Writes | None, arrays: Arrays, peers: Peers = ALONE) -> str:
    """Write the arrays of process 0, and the spread ones of all, into its file.

    Parameters
    ----------
    write
        How process 0 writes bytes to the file; ``None`` in the others.
    arrays
        By name. Spread arrays must be the same ones in every process.
    peers
        The processes.

    Returns
    -------
    str
        The SHA-256 digest of the file; in process 0 alone, elsewhere that of nothing.
    """
    order = sorted(arrays, key=lambda name: (-_part(arrays[name]).itemsize, name))
    lengths = {
        n: _lengths(array, peers) for n, array in arrays.items() if isinstance(array, Spread)
    }
    digest = hashlib.sha256()
    for piece in _pieces(order, arrays, lengths, peers):
        if write is not None:
            write(piece)
            digest.update(piece)
    return digest.hexdigest()


def _pieces(
    order: list[str], arrays: Arrays, lengths: dict[str, np.ndarray], peers: Peers
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of the file in process 0; the others send theirs and yield nothing."""
    if peers.rank == 0:
        yield _header({name: _described(name, arrays[name], lengths) for name in order})
    for name in order:
        array = arrays[name]
        if isinstance(array, Spread):
            for piece in _arriving(array.part, lengths[name], peers):
                if peers.rank == 0:
                    yield _bytes(piece)
        elif peers.rank == 0:
            yield _bytes(array)


def _arriving(part: np.ndarray, lengths: np.ndarray, peers: Peers) -> Iterator[np.ndarray]:
    """Yield an array's pieces in order; in process 0 what they are, elsewhere anything."""
    width = max(1, int(np.prod(part.shape[1:])) * part.itemsize)
    height = max(1, PIECE // width)
    for source, length in enumerate(lengths.tolist()):
        for start in range(0, length, height):
            mine = part[start : start + height] if peers.rank == source else part[:0]
            if source == 0:
                yield mine
                continue
            sent = [np.ascontiguousarray(mine) if q == 0 else part[:0] for q in range(peers.size)]
            yield peers.all_to_all(sent)[source]


def _header(entries: dict[str, tuple[str, list[int], int]]) -> bytes:
    page: dict[str, Any] = {}
    first = 0
    for name, (kind, shape, n_bytes) in entries.items():
        page[name] = {"dtype": kind, "shape": shape, "data_offsets": [first, first + n_bytes]}
        first += n_bytes
    text = json.dumps(page, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # arrays begin at a multiple of eight
    return struct.pack("<Q", len(text)) + text


def _described(
    name: str, array: np.ndarray | Spread, lengths: dict[str, np.ndarray]
) -> tuple[str, list[int], int]:
    """Return an array's type, shape and number of bytes."""
    part = _part(array)
    kind = _TYPES.get(part.dtype.name)
    if kind is None:
        raise InputError(f"arrays of type {part.dtype} cannot be saved, got one named {name!r}.")
    shape = list(part.shape)
    if name in lengths:
        shape[0] = int(lengths[name].sum())
    return kind, shape, int(np.prod(shape)) * part.itemsize


def _lengths(array: Spread, peers: Peers) -> np.ndarray:
    counts = np.zeros(peers.size, dtype=np.int64)
    counts[peers.rank] = len(array.part)
    return peers.all_reduce(counts)


def _part(array: np.ndarray | Spread) -> np.ndarray:
    return array.part if isinstance(array, Spread) else array


def _bytes(array: np.ndarray) -> memoryview:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data
