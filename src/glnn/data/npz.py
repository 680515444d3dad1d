"""Reading npz archives without pickle, and without trusting the sizes they declare."""

import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from glnn.data.files import atomic_write, check_file, parsing, shown
from glnn.exceptions import DataFormatError

MAX_BYTES = 2**35
"""No archive may unpack to more than this: 32 GiB."""

SMALL_BYTES = 2**28
MAX_EXPANSION = 250
"""An archive that unpacks to more than 256 MiB may grow at most this much."""

MAX_MEMBERS = 256


class ArrayHeader(NamedTuple):
    """What an array declares: its shape, dtype and whether it is stored by columns."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool


class NpzFile:
    """An npz archive whose declared sizes have been checked; arrays are read one by one.

    Use it as a context manager. ``headers`` maps each array's name to what it declares, so that
    a caller can compare shapes before any array takes memory.
    """

    def __init__(self, path: Path) -> None:
        check_file(path, max_bytes=MAX_BYTES)
        self.path = path
        with parsing(path, "npz"):
            self._zip = zipfile.ZipFile(path)
            try:
                self.headers = self._read_headers()
            except BaseException:
                self._zip.close()
                raise

    def __enter__(self) -> "NpzFile":
        return self

    def __exit__(self, *exception: object) -> None:
        self._zip.close()

    def __contains__(self, name: str) -> bool:
        return name in self.headers

    def read(self, name: str, *, kinds: str, ndim: int) -> np.ndarray:
        """Return one array, if it is there with a dtype among ``kinds`` and ``ndim`` dimensions."""
        if name not in self.headers:
            raise DataFormatError(f"{self.path.name} must hold the array {name!r}, got none.")
        header = self.headers[name]
        if header.dtype.kind not in kinds or len(header.shape) != ndim:
            raise DataFormatError(
                f"{name!r} in {self.path.name} must have {ndim} dimension(s) and dtype kind "
                f"{'/'.join(kinds)}, got shape {header.shape} and dtype {header.dtype}."
            )
        with parsing(self.path, "npz"), self._zip.open(name + ".npy") as file:
            return npy.read_array(file, allow_pickle=False)

    def _read_headers(self) -> dict[str, ArrayHeader]:
        members = self._zip.infolist()
        if len(members) > MAX_MEMBERS:
            raise DataFormatError(f"{self.path.name} must hold at most {MAX_MEMBERS} arrays.")
        _check_expansion(self.path, sum(member.file_size for member in members))
        headers = {}
        for member in members:
            if not member.filename.endswith(".npy"):
                raise DataFormatError(
                    f"{self.path.name} must hold arrays only, got {shown(member.filename)}."
                )
            with self._zip.open(member) as file:
                headers[member.filename[:-4]] = _checked_header(self.path, file, member)
        return headers


def _check_expansion(path: Path, unpacked: int) -> None:
    packed = path.stat().st_size
    if unpacked > MAX_BYTES or unpacked > max(SMALL_BYTES, MAX_EXPANSION * packed):
        raise DataFormatError(
            f"{path.name} must unpack to a sensible size, got {unpacked:,} bytes from a file of "
            f"{packed:,}. Nothing was unpacked."
        )


def _checked_header(path: Path, file: IO[bytes], member: zipfile.ZipInfo) -> ArrayHeader:
    """Read what an array declares and compare it with the bytes that are there."""
    label = shown(member.filename)
    version = npy.read_magic(file)
    if version == (1, 0):
        shape, fortran, dtype = npy.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, fortran, dtype = npy.read_array_header_2_0(file)
    else:
        raise DataFormatError(f"{label} in {path.name} must be of npy version 1 or 2.")
    if dtype.hasobject or dtype.itemsize == 0:  # values of no size would hide an absurd length
        raise DataFormatError(
            f"{label} in {path.name} must hold numbers or text, got {_kind(dtype)}. "
            "Nothing was run; save it without pickle."
        )
    size = dtype.itemsize
    for length in shape:
        size *= int(length)
    there = member.file_size - file.tell()
    if min(shape, default=0) < 0 or size != there:
        raise DataFormatError(
            f"{label} in {path.name} must hold the {size:,} bytes of its shape {shape}, "
            f"got {there:,}. Nothing was unpacked."
        )
    return ArrayHeader(tuple(int(length) for length in shape), dtype, bool(fortran))


def _kind(dtype: np.dtype[Any]) -> str:
    return "Python objects" if dtype.hasobject else f"dtype {dtype}"


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write compressed arrays, whole or not at all; equal arrays give equal bytes."""
    with atomic_write(path, "wb") as target, zipfile.ZipFile(target, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(name + ".npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as file:
                npy.write_array(file, np.asarray(array, order="C"), allow_pickle=False)


def text_array(texts: Iterable[str]) -> np.ndarray:
    """Return a Unicode array, of length 0 too."""
    return np.array(list(texts), dtype=np.str_)
