"""Files of saved models and checkpoints: safetensors for arrays, JSON with a checksum for the rest.

:func:`pack` turns any nesting of dataclasses, arrays and plain values into JSON values and named
arrays, and :func:`unpack` turns them back into the declared types. Nothing is pickled.
"""

import dataclasses
import hashlib
import json
import struct
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from safetensors import SafetensorError
from safetensors.numpy import load
from torch import Tensor, nn

from glnn.data.files import (
    atomic_write,
    is_replaceable,
    lock_folder,
    one_line,
    quote,
    quote_path,
    replace_folder,
)
from glnn.distributed import SINGLE_PROCESS, Partition, Peers, run_everywhere
from glnn.exceptions import CheckpointError, GlnnError, InputError

# Dataclasses, arrays and plain values as JSON and named arrays

Arrays = dict[str, np.ndarray]

# Fields with one row per node: over several processes each has its rows, and a file has all.
_SHARDED = {
    *(f"Model.{name}" for name in ("adjacency", "prior", "distributions", "features", "digests")),
    "FittedTrack.graph",
    "NewRowProblem.signal",
    "PriorGraph.prior",
    "SpectralFeatures.embedding",
}


class Packer:
    """Packs values into JSON and arrays; with a partition, notes which arrays are sharded."""

    def __init__(self, partition: Partition | None = None) -> None:
        self.arrays: Arrays = {}
        self.sharded: set[str] = set()  # names of arrays of which each process has some rows
        self._partition = partition

    def pack(self, value: Any, name: str = "", *, is_sharded: bool = False) -> Any:
        """Return JSON values; arrays are stored under names that begin with ``name``."""
        if sp.issparse(value):
            self._store_csr(sp.csr_matrix(value), name, is_sharded=is_sharded)
            return {"$csr": name}
        if isinstance(value, Tensor):
            self.arrays[name] = value.detach().cpu().numpy()
            return {"$tensor": name}
        if isinstance(value, np.ndarray) and value.dtype.kind in "OU":
            return {"$text": [_check_text(text, name) for text in value.tolist()]}
        if isinstance(value, np.ndarray):
            self._store(value, name, is_sharded=is_sharded)
            return {"$array": name}
        if dataclasses.is_dataclass(value):
            kind = type(value).__name__
            return {
                field.name: self.pack(
                    getattr(value, field.name),
                    _join(name, field.name),
                    is_sharded=self._partition is not None and f"{kind}.{field.name}" in _SHARDED,
                )
                for field in dataclasses.fields(value)
            }
        if isinstance(value, nn.Module):
            value = value.state_dict()
        if isinstance(value, Mapping):
            return {str(key): self.pack(part, _join(name, key)) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.pack(part, _join(name, place)) for place, part in enumerate(value)]
        if isinstance(value, Peers):
            return None
        return value.item() if isinstance(value, np.generic) else value

    def _store(self, array: np.ndarray, name: str, *, is_sharded: bool) -> None:
        self.arrays[name] = array
        if is_sharded:
            self.sharded.add(name)

    def _store_csr(self, csr: sp.csr_matrix, name: str, *, is_sharded: bool) -> None:
        offsets, n_rows = csr.indptr.astype(np.int64), csr.shape[0]
        if is_sharded:
            assert self._partition is not None  # the caller has looked
            rank, n_rows = self._partition.peers.rank, self._partition.n_nodes
            before = self._partition.all_gather(np.array([csr.nnz]))[:rank].sum()
            offsets = (offsets + before)[int(rank > 0) :]
        width = np.int32 if csr.shape[1] < 2**31 else np.int64  # the same in every process
        columns = csr.indices.astype(width, copy=False)
        for part, array in (("data", csr.data), ("indices", columns), ("indptr", offsets)):
            self._store(array, f"{name}.{part}", is_sharded=is_sharded)
        self.arrays[f"{name}.shape"] = np.array([n_rows, csr.shape[1]], dtype=np.int64)


def _join(name: str, part: object) -> str:
    return f"{name}.{part}" if name else str(part)


def _check_text(text: object, name: str) -> str:
    if not isinstance(text, str):
        raise InputError(f"{name} must be numbers or text to be saved, got {type(text).__name__}.")
    return text


def unpack(kind: Any, page: Any, arrays: Arrays) -> Any:
    """Return a value of a declared type from the output of :meth:`Packer.pack`.

    Examples
    --------
    >>> packer = Packer()
    >>> page = packer.pack((np.arange(3), "x"))
    >>> unpack(tuple[np.ndarray, str], page, packer.arrays)
    (array([0, 1, 2]), 'x')
    """
    options = typing.get_args(kind)
    if typing.get_origin(kind) in (typing.Union, types.UnionType):
        return unpack(_choose_option(options, page), page, arrays)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        parts = {name: unpack(hints[name], page[name], arrays) for name in names}
        return kind(**parts)  # type: ignore[operator]
    if typing.get_origin(kind) is tuple:
        inner = [options[0]] * len(page) if options[-1] is Ellipsis else options
        return tuple(unpack(part, each, arrays) for part, each in zip(inner, page, strict=True))
    if isinstance(page, list):
        return [unpack(options[0] if options else Any, part, arrays) for part in page]
    if isinstance(page, dict) and not any(name.startswith("$") for name in page):
        inner_kind = options[1] if options else Any
        return {name: unpack(inner_kind, part, arrays) for name, part in page.items()}
    return SINGLE_PROCESS if kind is Peers else _fetch(page, arrays)


def _fetch(page: Any, arrays: Arrays) -> Any:
    """Return a plain value, or the array that a page refers to."""
    match page:
        case {"$array": name}:
            return arrays[name]
        case {"$tensor": name}:
            return torch.from_numpy(arrays[name].copy())
        case {"$csr": name}:
            return _unpack_csr(name, arrays)
        case {"$text": texts}:
            return np.array(texts, dtype=np.str_)
    return page


def _choose_option(options: tuple[Any, ...], page: Any) -> Any:
    """Return the type of a union that a page was made from."""
    others = [option for option in options if option is not types.NoneType]
    if page is None or len(others) == 1:
        return Any if page is None else others[0]
    classes = [option for option in others if dataclasses.is_dataclass(option)]
    names = [{field.name for field in dataclasses.fields(kind)} for kind in classes]
    return next((kind for kind, own in zip(classes, names) if own == set(page)), Any)


def _unpack_csr(name: str, arrays: Arrays) -> sp.csr_matrix:
    parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    matrix = sp.csr_matrix(parts, shape=tuple(arrays[f"{name}.shape"]))
    matrix.check_format(full_check=True)  # SciPy does not check the range of indices elsewhere
    return matrix


@contextmanager
def wrap_unpack_errors(path: Path) -> Iterator[None]:
    """Turn any error while unpacking a file into a :class:`CheckpointError` of one line."""
    try:
        yield
    except GlnnError:
        raise
    except Exception as error:
        reason = one_line(error) or "no detail"
        raise CheckpointError(
            f"{quote_path(path)} was damaged or is not complete: {type(error).__name__}: {reason}."
        ) from None


def compute_digest(value: Any) -> bytes:
    """Return the SHA-256 digest of plain values, arrays and dataclasses, however nested."""
    packer = Packer()
    page = packer.pack(value)
    digest = hashlib.sha256(json.dumps(page, sort_keys=True).encode())
    for name, array in sorted(packer.arrays.items()):
        digest.update(name.encode() + _array_digest(array))
    return digest.digest()


def _array_digest(array: np.ndarray) -> bytes:
    digest = hashlib.sha256(f"{array.dtype} {array.shape}".encode())
    digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


# Arrays in a safetensors file

CHUNK_BYTES = 2**26  # of an array that one message between processes holds

_TYPES = {"float": "F", "int": "I", "uint": "U"}  # and the number of bits

WriteBytes = Callable[[bytes | memoryview], object]


def write_arrays(
    write: WriteBytes | None,
    arrays: Arrays,
    peers: Peers = SINGLE_PROCESS,
    sharded: Collection[str] = (),
) -> str:
    """Write the arrays of process 0, with the rows that all processes have of sharded ones.

    ``write`` writes bytes to the file in process 0 and is ``None`` elsewhere. Returns the SHA-256
    digest of the file in process 0.
    """
    order = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))
    lengths: dict[str, np.ndarray] = {}
    for name in sorted(sharded):
        counts = np.zeros(peers.size, dtype=np.int64)
        counts[peers.rank] = len(arrays[name])
        lengths[name] = peers.all_reduce(counts)
    digest = hashlib.sha256()
    for piece in _iter_chunks(order, arrays, lengths, peers):
        if write is not None:
            write(piece)
            digest.update(piece)
    return digest.hexdigest()


def _iter_chunks(
    order: list[str], arrays: Arrays, lengths: dict[str, np.ndarray], peers: Peers
) -> Iterator[bytes | memoryview]:
    """Yield the bytes of the file in process 0; the others send their parts and yield nothing."""
    if peers.rank == 0:
        yield _build_header({name: (arrays[name], lengths.get(name)) for name in order})
    for name in order:
        if name in lengths:
            for piece in _exchange_chunks(arrays[name], lengths[name], peers):
                if peers.rank == 0:
                    yield _to_bytes(piece)
        elif peers.rank == 0:
            yield _to_bytes(arrays[name])


def _exchange_chunks(part: np.ndarray, lengths: np.ndarray, peers: Peers) -> Iterator[np.ndarray]:
    """Yield the chunks of a sharded array in order; the values are valid in process 0 only."""
    width = max(1, int(np.prod(part.shape[1:])) * part.itemsize)
    height = max(1, CHUNK_BYTES // width)
    for source, length in enumerate(lengths.tolist()):
        for start in range(0, length, height):
            mine = part[start : start + height] if peers.rank == source else part[:0]
            if source == 0:
                yield mine
                continue
            sent = [np.ascontiguousarray(mine) if q == 0 else part[:0] for q in range(peers.size)]
            yield peers.all_to_all(sent)[source]


def _build_header(entries: dict[str, tuple[np.ndarray, np.ndarray | None]]) -> bytes:
    page: dict[str, Any] = {}
    first = 0
    for name, (array, lengths) in entries.items():
        kind = array.dtype.name.rstrip("0123456789")
        if kind not in (*_TYPES, "bool"):
            raise InputError(
                f"arrays of type {array.dtype} cannot be saved, got one named {name!r}."
            )
        tag = "BOOL" if kind == "bool" else f"{_TYPES[kind]}{8 * array.itemsize}"
        shape = list(array.shape) if lengths is None else [int(lengths.sum()), *array.shape[1:]]
        last = first + int(np.prod(shape)) * array.itemsize
        page[name] = {"dtype": tag, "shape": shape, "data_offsets": [first, last]}
        first = last
    text = json.dumps(page, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format aligns arrays to 8 bytes
    return struct.pack("<Q", len(text)) + text


def _to_bytes(array: np.ndarray) -> memoryview:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


_REPEATED = "repeated"  # name of the array with the names of arrays that are not stored


def drop_repeats(
    arrays: Arrays, peers: Peers = SINGLE_PROCESS, sharded: Collection[str] = ()
) -> Arrays:
    """Return arrays of which equal ones are stored once; :func:`restore_repeats` undoes it.

    Sharded arrays are equal if they are so in every process.
    """
    keys = {name: _array_digest(array) for name, array in arrays.items()}
    names = sorted(sharded)
    if names:
        own = np.frombuffer(b"".join(keys[name] for name in names), dtype=np.uint8)
        everywhere = np.stack(peers.all_gather(own.reshape(len(names), -1)), axis=1)
        keys |= {name: part.tobytes() for name, part in zip(names, everywhere)}
    first: dict[bytes, str] = {}
    repeated = {name: first.setdefault(keys[name], name) for name in sorted(keys)}
    repeated = {name: other for name, other in repeated.items() if name != other}
    kept = {name: array for name, array in arrays.items() if name not in repeated}
    return kept | {_REPEATED: np.frombuffer(json.dumps(repeated).encode(), dtype=np.uint8)}


def restore_repeats(arrays: Arrays) -> Arrays:
    """Return all arrays that were given to :func:`drop_repeats`."""
    kept = dict(arrays)
    repeated = json.loads(kept.pop(_REPEATED).tobytes())
    return kept | {name: kept[other] for name, other in repeated.items()}


# JSON files with a checksum

_CHECKSUM = "page_sha256"  # key of the digest
_MAX_BYTES = 2**30  # of a JSON file


def write_checked_json(path: Path, kind: str, version: int, page: Mapping[str, Any]) -> None:
    """Write a JSON file atomically, with its kind, version and checksum."""
    page = {"format": kind, "version": version, **page}
    with atomic_write(path) as file:
        file.write(json.dumps({_CHECKSUM: _page_digest(page), **page}, indent=1))


def read_checked_json(
    path: Path, kind: str, version: int, advice: str = "Remove its folder to start anew"
) -> dict[str, Any]:
    """Read a file of :func:`write_checked_json`; check its kind, version and checksum.

    ``advice`` is the last sentence of the error line.
    """
    name = quote_path(path)
    if path.is_file() and path.stat().st_size > _MAX_BYTES:
        raise CheckpointError(f"{name} must have at most {_MAX_BYTES:,} bytes. {advice}.")
    try:
        page = {**json.loads(path.read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{name} cannot be read: {type(error).__name__}. {advice}.") from None
    if page.get("format") != kind or page.get("version") != version:
        raise CheckpointError(
            f"{name} must be a {kind} of format {version}, got {quote(page.get('version'))}. "
            f"{advice}, or use the version of glnn that wrote it."
        )
    if page.pop(_CHECKSUM, None) != _page_digest(page):
        raise CheckpointError(f"{name} was damaged. {advice}.")
    return page


def _page_digest(page: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(page, sort_keys=True).encode()).hexdigest()


# Folder of a saved model

FORMAT, VERSION = "glnn-model", 6
_ARRAYS, _PAGE = "model.safetensors", "model.json"

_Kind = TypeVar("_Kind")


def write_archive(folder: Path, value: Any, partition: Partition | None = None) -> None:
    """Write a dataclass: its arrays, then the rest with their digest, to detect a torn write.

    Equal arrays are written once. Over several processes, all must call it; process 0 writes, and
    the others send their parts of sharded arrays.
    """
    peers = SINGLE_PROCESS if partition is None else partition.peers
    packer = Packer(partition if peers.size > 1 else None)
    page = packer.pack(value)
    run_everywhere(peers, lambda: _make_folder(folder) if peers.rank == 0 else None)
    arrays = drop_repeats(packer.arrays, peers, packer.sharded)
    sharded = packer.sharded & arrays.keys()
    if peers.rank:
        write_arrays(None, arrays, peers, sharded)
        return
    with _open_target(folder) as place:
        with atomic_write(place / _ARRAYS, "wb") as file:
            digest = write_arrays(file.write, arrays, peers, sharded)
        write_checked_json(place / _PAGE, FORMAT, VERSION, {"arrays_sha256": digest, **page})


@contextmanager
def _open_target(folder: Path) -> Iterator[Path]:
    """Yield the folder to write into; an existing model is replaced in one step at the end."""
    if not (folder / _PAGE).exists() or not is_replaceable(folder):
        yield folder
        return
    with lock_folder(folder.resolve()), replace_folder(folder, (_ARRAYS, _PAGE)) as place:
        yield place


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} must be a folder that can be made, got: {error.strerror}. Name another."
        ) from None


def read_archive(folder: Path, kind: type[_Kind]) -> _Kind:
    """Read the dataclass that :func:`write_archive` wrote, after checking the digests."""
    advice = "Name a folder that glnn fit or GLNNClassifier.save wrote"
    page = read_checked_json(folder / _PAGE, FORMAT, VERSION, advice)
    name = quote_path(folder / _ARRAYS)
    try:
        packed = (folder / _ARRAYS).read_bytes()
        if hashlib.sha256(packed).hexdigest() != page.get("arrays_sha256"):
            raise CheckpointError(f"{name} does not belong to {_PAGE} or was damaged. {advice}.")
        with wrap_unpack_errors(folder):
            found: _Kind = unpack(kind, page, restore_repeats(load(packed)))
            return found
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{name} cannot be read: {type(error).__name__}. {advice}.") from None
