"""Files of saved models and checkpoints: safetensors for arrays, JSON with a checksum for the rest.

:func:`pack` turns any nesting of dataclasses, arrays and plain values into JSON values and named
arrays, and :func:`unpack` turns them back into the declared types. Nothing is pickled.
"""

import dataclasses
import hashlib
import json
import types
import typing
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import Tensor, nn

from glnn.data.files import (
    atomic_write,
    is_replaceable,
    lock_folder,
    make_folder,
    one_line,
    quote,
    quote_path,
    replace_folder,
)
from glnn.distributed import SINGLE_PROCESS, Partition, Peers, run_everywhere
from glnn.exceptions import CheckpointError, GlnnError, InputError

# Dataclasses, arrays and plain values as JSON and named arrays

Arrays = dict[str, np.ndarray]
_Kind = TypeVar("_Kind")

# Fields with one row per node: over several processes each has its rows, and a file has all.
_SHARDED = {
    *(f"Model.{name}" for name in ("adjacency", "prior", "distributions", "features", "digests")),
    "FittedTrack.graph",
    "NewRowProblem.signal",
    "PriorGraph.prior",
    "SpectralFeatures.embedding",
}


class Packer:
    """Packs values into JSON and arrays; those of several processes are gathered in process 0."""

    def __init__(self, partition: Partition | None = None) -> None:
        self.arrays: Arrays = {}
        self._partition = partition

    def pack(self, value: Any, name: str = "") -> Any:
        """Return JSON values; arrays are stored under names that begin with ``name``."""
        if value is None or type(value) in (bool, int, float, str):  # most are: a history
            return value
        if sp.issparse(value):
            self._store_csr(sp.csr_matrix(value), name)
            return {"$csr": name}
        if isinstance(value, Tensor):
            self.arrays[name] = value.detach().cpu().numpy()
            return {"$tensor": name}
        if isinstance(value, np.ndarray):
            return self._store_array(value, name)
        if dataclasses.is_dataclass(value):
            fields = [part.name for part in dataclasses.fields(value)]
            value = {field: self._gather(value, field) for field in fields}
        elif isinstance(value, nn.Module):
            value = value.state_dict()
        if isinstance(value, Mapping):
            return {str(key): self.pack(part, _join(name, key)) for key, part in value.items()}
        if isinstance(value, list | tuple):
            return [self.pack(part, _join(name, place)) for place, part in enumerate(value)]
        if isinstance(value, Peers):
            return None
        return value.item() if isinstance(value, np.generic) else value

    def _gather(self, value: Any, field: str) -> Any:
        """Return a field of a dataclass; one with a row per node has all of them in process 0."""
        part = getattr(value, field)
        if self._partition is None or f"{type(value).__name__}.{field}" not in _SHARDED:
            return part
        return self._partition.gather(part)

    def _store_array(self, array: np.ndarray, name: str) -> dict[str, Any]:
        if array.dtype.kind in "OU":
            return {"$text": [_check_text(text, name) for text in array.tolist()]}
        self.arrays[name] = array
        return {"$array": name}

    def _store_csr(self, csr: sp.csr_matrix, name: str) -> None:
        for part in ("data", "indices", "indptr"):
            self.arrays[f"{name}.{part}"] = getattr(csr, part)
        self.arrays[f"{name}.shape"] = np.array(csr.shape, dtype=np.int64)


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

_REPEATED = "repeated"  # name of the array with the names of arrays that are not stored


def pack_arrays(arrays: Arrays) -> bytes:
    """Return the bytes of a safetensors file in which equal arrays are stored once."""
    first: dict[bytes, str] = {}
    repeated = {
        name: first.setdefault(_array_digest(arrays[name]), name) for name in sorted(arrays)
    }
    repeated = {name: other for name, other in repeated.items() if name != other}
    kept = {name: np.asarray(a, order="C") for name, a in arrays.items() if name not in repeated}
    kept[_REPEATED] = np.frombuffer(json.dumps(repeated).encode(), dtype=np.uint8)
    return save(kept)


def unpack_arrays(packed: bytes) -> Arrays:
    """Return all arrays that were given to :func:`pack_arrays`."""
    kept = dict(load(packed))
    repeated = json.loads(kept.pop(_REPEATED).tobytes())
    return kept | {name: kept[other] for name, other in repeated.items()}


# JSON files with a checksum

_CHECKSUM = "page_sha256"  # key of the digest
_MAX_BYTES = 2**30  # of a JSON file


def write_checked_json(path: Path, kind: str, version: int, page: Mapping[str, Any]) -> None:
    """Write a JSON file atomically, with its kind, version and checksum."""
    page = {"format": kind, "version": version, **page}
    with atomic_write(path) as file:
        file.write(json.dumps({_CHECKSUM: _page_digest(page), **page}))  # indent takes ten times


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


def write_record(path: Path, kind: str, version: int, record: Any) -> None:
    """Write a dataclass of plain values as :func:`write_checked_json` does."""
    write_checked_json(path, kind, version, Packer().pack(record))


def read_record(path: Path, kind: str, version: int, form: type[_Kind], advice: str) -> _Kind:
    """Read a dataclass that :func:`write_record` wrote."""
    page = read_checked_json(path, kind, version, advice)
    with wrap_unpack_errors(path):
        found: _Kind = unpack(form, page, {})
    return found


# Folder of a saved model

FORMAT, VERSION = "glnn-model", 6
_ARRAYS, _PAGE = "model.safetensors", "model.json"


def write_archive(folder: Path, value: Any, partition: Partition | None = None) -> None:
    """Write a record: its arrays, then the rest with their digest, to detect a torn write.

    Over several processes all must call it. Process 0 gathers what the others have, and writes.
    """
    peers = SINGLE_PROCESS if partition is None else partition.peers
    packer = Packer(partition)
    page = packer.pack(value)
    run_everywhere(peers, lambda: _write(folder, page, packer.arrays) if peers.rank == 0 else None)


def _write(folder: Path, page: dict[str, Any], arrays: Arrays) -> None:
    make_folder(folder)
    packed = pack_arrays(arrays)
    digest = hashlib.sha256(packed).hexdigest()
    with _open_target(folder) as place:
        with atomic_write(place / _ARRAYS, "wb") as file:
            file.write(packed)
        write_checked_json(place / _PAGE, FORMAT, VERSION, {"arrays_sha256": digest, **page})


@contextmanager
def _open_target(folder: Path) -> Iterator[Path]:
    """Yield the folder to write into; an existing model is replaced in one step at the end."""
    if not (folder / _PAGE).exists() or not is_replaceable(folder):
        yield folder
        return
    with lock_folder(folder.resolve()), replace_folder(folder, (_ARRAYS, _PAGE)) as place:
        yield place


def read_archive(folder: Path, kind: type[_Kind]) -> _Kind:
    """Read the record that :func:`write_archive` wrote, after checking the digests."""
    advice = "Name a folder that glnn fit or GLNNClassifier.save wrote"
    page = read_checked_json(folder / _PAGE, FORMAT, VERSION, advice)
    name = quote_path(folder / _ARRAYS)
    try:
        packed = (folder / _ARRAYS).read_bytes()
        if hashlib.sha256(packed).hexdigest() != page.get("arrays_sha256"):
            raise CheckpointError(f"{name} does not belong to {_PAGE} or was damaged. {advice}.")
        with wrap_unpack_errors(folder):
            found: _Kind = unpack(kind, page, unpack_arrays(packed))
            return found
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{name} cannot be read: {type(error).__name__}. {advice}.") from None
