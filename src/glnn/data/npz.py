"""Reading npz archives without pickle, and without trusting the sizes they declare."""

import ast
import hashlib
import re
import struct
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy

from glnn.data.files import atomic_write, check_file, parsing, shown, without_warnings
from glnn.data.zip_list import opened_zip
from glnn.exceptions import DataFormatError

MAX_BYTES = 2**35
"""No archive may unpack to more than this: 32 GiB."""

SMALL_BYTES = 2**28
MAX_EXPANSION = 250
"""An archive that unpacks to more than 256 MiB may grow at most this much."""

STORED_BYTES = 2**26
"""Arrays from this size on (64 MiB) are written without compression, to be read in parts."""

MAX_MEMBERS = 256
MAX_HEADER = 4096
_LOCAL_HEADER = struct.Struct("<26sHH")
_PLAIN_DTYPE = re.compile(r"[<>|=]?[?biufcSUO][0-9]{0,9}")


class ArrayHeader(NamedTuple):
    """What an array declares: shape, dtype, storage by columns, and where its bytes begin."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool
    offset: int


class NpzFile:
    """An npz archive whose declared sizes have been checked; arrays are read one by one.

    Use it as a context manager. ``headers`` maps each array's name to what it declares, so that
    a caller can compare shapes before any array takes memory.
    """

    def __init__(self, path: Path) -> None:
        check_file(path, max_bytes=MAX_BYTES)
        self.path = path
        with parsing(path, "npz"):
            self._zip = opened_zip(path)
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
            raw = file.read()[header.offset :]
        _check_code_points(name, header.dtype, raw)
        flat = np.frombuffer(raw, dtype=header.dtype)
        return flat.reshape(header.shape, order="F" if header.fortran else "C").copy()

    def can_read_slices(self, name: str) -> bool:
        """Whether an array is there without compression, so that parts of it can be read."""
        if name not in self.headers:
            return False
        member = self._zip.getinfo(name + ".npy")
        return (
            member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
        )

    def read_slice(self, name: str, start: int, stop: int, *, kinds: str) -> np.ndarray:
        """Return some entries of an array of one dimension; no others are read.

        Parameters
        ----------
        name
            The array; :meth:`can_read_slices` holds.
        start, stop
            The first entry, and the one after the last.
        kinds
            The kinds of dtype it may have.
        """
        header, member = self.headers[name], self._zip.getinfo(name + ".npy")
        if header.dtype.kind not in kinds or len(header.shape) != 1:
            raise DataFormatError(
                f"{name!r} in {self.path.name} must have one dimension and dtype kind "
                f"{'/'.join(kinds)}, got shape {header.shape} and dtype {header.dtype}."
            )
        size = header.dtype.itemsize
        with parsing(self.path, "npz"), self.path.open("rb") as file:
            file.seek(member.header_offset)
            local = file.read(_LOCAL_HEADER.size)
            _, n_name, n_extra = _LOCAL_HEADER.unpack(local)
            begin = member.header_offset + _LOCAL_HEADER.size + n_name + n_extra + header.offset
            file.seek(begin + start * size)
            raw = file.read((stop - start) * size)
        return np.frombuffer(raw, dtype=header.dtype).copy()

    @property
    def digest(self) -> str:
        """A text that changes with the arrays: their names, sizes and checksums, hashed."""
        parts = ((m.filename, m.file_size, m.CRC) for m in self._zip.infolist())
        return hashlib.sha256(repr(list(parts)).encode()).hexdigest()

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


def _checked_header(path: Path, file: Any, member: zipfile.ZipInfo) -> ArrayHeader:
    """Read what an array declares and compare it with the bytes that are there."""
    label = f"{shown(member.filename)} in {path.name}"
    header = _parse_header(label, file)
    if header.dtype.hasobject or header.dtype.itemsize == 0:  # no size would hide any length
        raise DataFormatError(
            f"{label} must hold numbers or text, got {_kind(header.dtype)}. "
            "Nothing was run; save it without pickle."
        )
    size = header.dtype.itemsize
    for length in header.shape:
        size *= length
    there = member.file_size - header.offset
    if min(header.shape, default=0) < 0 or size != there:
        raise DataFormatError(
            f"{label} must hold the {size:,} bytes of its shape {header.shape}, got {there:,}. "
            "Nothing was unpacked."
        )
    return header


def _parse_header(label: str, file: Any) -> ArrayHeader:
    """Read the npy preamble: a magic word, a version, a length, and a literal of three fields."""
    start = file.read(8)
    if start[:6] != b"\x93NUMPY" or start[6:8] not in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        raise DataFormatError(f"{label} must be an array in npy format, got something else.")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > MAX_HEADER:
        raise DataFormatError(f"{label} must have a header of at most {MAX_HEADER} bytes.")
    text = file.read(length).decode("utf-8" if start[6] == 3 else "latin1")
    with without_warnings():
        fields = ast.literal_eval(text.strip())
    shape, code = fields["shape"], fields["descr"]
    if not isinstance(code, str) or not _PLAIN_DTYPE.fullmatch(code) or type(shape) is not tuple:
        raise DataFormatError(f"{label} must be a plain array, got another kind.")
    if not all(type(size) is int for size in shape) or len(shape) > 4:
        raise DataFormatError(f"{label} must have at most four whole sizes, got {shown(shape)}.")
    return ArrayHeader(shape, np.dtype(code), fields["fortran_order"] is True, 8 + width + length)


def _check_code_points(name: str, dtype: np.dtype[Any], raw: bytes) -> None:
    """Refuse text beyond Unicode, which NumPy would take and Python could not show."""
    if dtype.kind == "U" and raw:
        points = np.frombuffer(raw, dtype=np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if points.max() > 0x10FFFF:
            raise DataFormatError(f"{name!r} must be Unicode text, got other numbers.")


def _kind(dtype: np.dtype[Any]) -> str:
    return "Python objects" if dtype.hasobject else f"dtype {dtype}"


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays, small ones compressed, whole or not at all; equal arrays give equal bytes."""
    with atomic_write(path, "wb") as target, zipfile.ZipFile(target, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(name + ".npy", date_time=(1980, 1, 1, 0, 0, 0))
            packed = np.asarray(array).nbytes < STORED_BYTES
            entry.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            with archive.open(entry, "w", force_zip64=True) as file:
                npy.write_array(file, np.asarray(array, order="C"), allow_pickle=False)


def text_array(texts: Iterable[str]) -> np.ndarray:
    """Return a Unicode array, of length 0 too."""
    return np.array(list(texts), dtype=np.str_)
