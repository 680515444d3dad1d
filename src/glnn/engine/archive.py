"""Files of saved models and checkpoints, without pickle.

Named arrays go into a safetensors file, also from several processes; metadata goes into a JSON
file with a checksum. The functions ``pack_...`` and ``unpack_...`` turn parts of a fit into named
arrays and JSON values and back.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from safetensors import SafetensorError
from safetensors.numpy import load
from torch import nn

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
from glnn.engine.settings import FitSettings, GraphSettings, HeadSettings, Track
from glnn.exceptions import CheckpointError, GlnnError, InputError
from glnn.graph.prior import PriorGraph
from glnn.objective import Weights
from glnn.objective.base import RowCoefficients
from glnn.solver import FeatureSignal, NewRowProblem

# Arrays in a safetensors file

CHUNK_BYTES = 2**26  # of an array that one message between processes holds

_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "int64": "I64",
    "int32": "I32",
    "uint8": "U8",
    "bool": "BOOL",
}


@dataclass(frozen=True, eq=False)
class ShardedArray:
    """An array split by rows over the processes, in the order of their ranks."""

    part: np.ndarray


WriteBytes = Callable[[bytes | memoryview], object]
Arrays = Mapping[str, np.ndarray | ShardedArray]


def write_arrays(write: WriteBytes | None, arrays: Arrays, peers: Peers = SINGLE_PROCESS) -> str:
    """Write the arrays of process 0, and the sharded arrays of all processes, to one file.

    ``write`` writes bytes to the file in process 0 and is ``None`` elsewhere. Every process must
    have the same names of sharded arrays. Returns the SHA-256 digest of the file in process 0, and
    that of no bytes elsewhere.
    """
    order = sorted(arrays, key=lambda name: (-_local_part(arrays[name]).itemsize, name))
    lengths = {
        n: _gather_lengths(array, peers)
        for n, array in arrays.items()
        if isinstance(array, ShardedArray)
    }
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
        yield _build_header({name: _describe(name, arrays[name], lengths) for name in order})
    for name in order:
        array = arrays[name]
        if isinstance(array, ShardedArray):
            for piece in _exchange_chunks(array.part, lengths[name], peers):
                if peers.rank == 0:
                    yield _to_bytes(piece)
        elif peers.rank == 0:
            yield _to_bytes(array)


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


def _build_header(entries: dict[str, tuple[str, list[int], int]]) -> bytes:
    page: dict[str, Any] = {}
    first = 0
    for name, (kind, shape, n_bytes) in entries.items():
        page[name] = {"dtype": kind, "shape": shape, "data_offsets": [first, first + n_bytes]}
        first += n_bytes
    text = json.dumps(page, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format aligns arrays to 8 bytes
    return struct.pack("<Q", len(text)) + text


def _describe(
    name: str, array: np.ndarray | ShardedArray, lengths: dict[str, np.ndarray]
) -> tuple[str, list[int], int]:
    """Return an array's type, shape and number of bytes."""
    part = _local_part(array)
    kind = _TYPES.get(part.dtype.name)
    if kind is None:
        raise InputError(f"arrays of type {part.dtype} cannot be saved, got one named {name!r}.")
    shape = list(part.shape)
    if name in lengths:
        shape[0] = int(lengths[name].sum())
    return kind, shape, int(np.prod(shape)) * part.itemsize


def _gather_lengths(array: ShardedArray, peers: Peers) -> np.ndarray:
    counts = np.zeros(peers.size, dtype=np.int64)
    counts[peers.rank] = len(array.part)
    return peers.all_reduce(counts)


def _local_part(array: np.ndarray | ShardedArray) -> np.ndarray:
    return array.part if isinstance(array, ShardedArray) else array


def _to_bytes(array: np.ndarray) -> memoryview:
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


_Array = TypeVar("_Array", np.ndarray, np.ndarray | ShardedArray)
_REPEATED = "repeated"  # name of the array with the names of arrays that are not stored


def drop_repeats(
    arrays: Mapping[str, _Array], peers: Peers = SINGLE_PROCESS
) -> dict[str, _Array | np.ndarray]:
    """Return arrays of which equal ones are stored once; :func:`restore_repeats` undoes it.

    Sharded arrays are equal if they are so in every process.
    """
    keys = {name: compute_digest("", {"": _local_part(array)}) for name, array in arrays.items()}
    sharded = sorted(name for name, array in arrays.items() if isinstance(array, ShardedArray))
    if sharded:
        own = np.frombuffer(b"".join([keys[name] for name in sharded]), dtype=np.uint8)
        everywhere = np.stack(peers.all_gather(own.reshape(len(sharded), -1)), axis=1)
        keys |= {name: everywhere[place].tobytes() for place, name in enumerate(sharded)}
    first: dict[bytes, str] = {}
    repeated = {name: first.setdefault(keys[name], name) for name in sorted(keys)}
    repeated = {name: other for name, other in repeated.items() if name != other}
    kept = {name: array for name, array in arrays.items() if name not in repeated}
    names = np.frombuffer(json.dumps(repeated).encode(), dtype=np.uint8)
    return kept | {_REPEATED: names}


def restore_repeats(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return all arrays that were given to :func:`drop_repeats`."""
    kept = dict(arrays)
    repeated = json.loads(kept.pop(_REPEATED).tobytes())
    return kept | {name: kept[other] for name, other in repeated.items()}


# JSON files with a checksum

_CHECKSUM = "page_sha256"  # key of the digest
_MAX_BYTES = 2**30  # of a JSON file
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


@contextmanager
def wrap_unpack_errors(path: Path) -> Iterator[None]:
    """Turn any error while unpacking a file into a :class:`CheckpointError` of one line."""
    try:
        yield
    except GlnnError:
        raise
    except _UNPACK_ERRORS as error:
        reason = one_line(error) or "no detail"
        raise CheckpointError(
            f"{quote_path(path)} was damaged or is not complete: {type(error).__name__}: {reason}."
        ) from None


def compute_digest(facts: str, arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the SHA-256 digest of a text and of arrays with their names, types and shapes."""
    digest = hashlib.sha256(facts.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def _page_digest(page: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(page, sort_keys=True).encode()).hexdigest()


# Folder of a saved model

FORMAT = "glnn-model"
VERSION = 5
_ARRAYS, _PAGE = "model.safetensors", "model.json"


def write_archive(
    folder: Path,
    arrays: dict[str, np.ndarray | ShardedArray],
    page: dict[str, Any],
    peers: Peers = SINGLE_PROCESS,
) -> None:
    """Write the arrays, then the metadata with their digest, so that reading detects a torn write.

    Equal arrays are written once.

    Over several processes, process 0 writes, and the others send their parts of sharded arrays.
    """
    run_everywhere(peers, lambda: _make_folder(folder) if peers.rank == 0 else None)
    arrays = drop_repeats(arrays, peers)
    if peers.rank:
        write_arrays(None, arrays, peers)
        return
    with _open_target(folder) as place:
        with atomic_write(place / _ARRAYS, "wb") as file:
            digest = write_arrays(file.write, arrays, peers)
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


def read_archive(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read the arrays and the metadata of :func:`write_archive`; check their digests."""
    advice = "Name a folder that glnn fit or GLNNClassifier.save wrote"
    page = read_checked_json(folder / _PAGE, FORMAT, VERSION, advice)
    name = quote_path(folder / _ARRAYS)
    try:
        packed = (folder / _ARRAYS).read_bytes()
        if hashlib.sha256(packed).hexdigest() != page.get("arrays_sha256"):
            raise CheckpointError(f"{name} does not belong to {_PAGE} or was damaged. {advice}.")
        with wrap_unpack_errors(folder):
            return restore_repeats(load(packed)), page
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{name} cannot be read: {type(error).__name__}. {advice}.") from None


def pack_matrix(
    name: str,
    matrix: Any,
    arrays: dict[str, np.ndarray | ShardedArray],
    partition: Partition | None = None,
) -> None:
    """Add a dense or CSR matrix to the arrays under ``name``; ``None`` adds nothing.

    With a partition, each process passes its rows of the matrix.
    """
    if matrix is None:
        return
    if not sp.issparse(matrix):
        arrays[name] = _shard(np.asarray(matrix), partition)
        return
    csr = sp.csr_matrix(matrix)
    offsets, n_rows = csr.indptr.astype(np.int64), csr.shape[0]
    if partition is not None:
        before = partition.all_gather_count(csr.nnz)[: partition.peers.rank].sum()
        offsets, n_rows = (offsets + before)[int(partition.peers.rank > 0) :], partition.n_nodes
    arrays[f"{name}.data"] = _shard(csr.data, partition)
    width = np.int32 if csr.shape[1] < 2**31 else np.int64  # the same in every process
    arrays[f"{name}.indices"] = _shard(csr.indices.astype(width, copy=False), partition)
    arrays[f"{name}.indptr"] = _shard(offsets, partition)
    arrays[f"{name}.shape"] = np.array([n_rows, csr.shape[1]], dtype=np.int64)


def _shard(part: np.ndarray, partition: Partition | None) -> np.ndarray | ShardedArray:
    return part if partition is None else ShardedArray(part)


def unpack_matrix(name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return the matrix packed under ``name``, or ``None``."""
    if name in arrays:
        return arrays[name]
    if f"{name}.data" not in arrays:
        return None
    parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    matrix = sp.csr_matrix(parts, shape=tuple(arrays[f"{name}.shape"]))
    matrix.check_format(full_check=True)  # SciPy does not check the range of indices elsewhere
    return matrix


# Parts of a fit as arrays and JSON values


def pack_networks(
    networks: Sequence[nn.Module], arrays: dict[str, np.ndarray | ShardedArray]
) -> None:
    """Add the parameters of networks to the arrays, by position."""
    for place, network in enumerate(networks):
        for name, value in network.state_dict().items():
            arrays[f"network.{place}.{name}"] = value.cpu().numpy()


def fill_networks(networks: Sequence[nn.Module], arrays: dict[str, np.ndarray]) -> None:
    """Load the parameters from the output of :func:`pack_networks` into networks."""
    for place, network in enumerate(networks):
        prefix = f"network.{place}."
        state = {
            name.removeprefix(prefix): torch.from_numpy(array.copy())
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        network.load_state_dict(state)


def parse_settings(page: dict[str, Any]) -> FitSettings:
    """Return the settings that were written as plain values."""
    tracks = {name: tuple(map(parse_track, page[name])) for name in ("tracks", "no_graph")}
    return FitSettings(**(page | tracks))


def parse_track(page: dict[str, Any]) -> Track:
    """Return a track that was written likewise."""
    graph = page["graph"] | {"weights": Weights(**page["graph"]["weights"])}
    parts: dict[str, Any] = {"head": HeadSettings(**page["head"]), "graph": GraphSettings(**graph)}
    return Track(**(page | parts))


def pack_new_rows(
    rows: NewRowProblem,
    arrays: dict[str, np.ndarray | ShardedArray],
    partition: Partition | None = None,
    prefix: str = "new_rows",
) -> dict[str, Any]:
    """Add the graph problem of new rows to the arrays; return its JSON metadata.

    With a partition, each process has its rows of the signal and of the prior graph.
    """
    shares, facts = rows.share.to_arrays()
    arrays |= {f"{prefix}.share.{name}": array for name, array in shares.items()}
    for name in ("scale", "shift"):
        pack_matrix(f"{prefix}.transform.{name}", getattr(rows.transform, name), arrays)
    pack_matrix(f"{prefix}.signal", rows.signal, arrays, partition)
    if rows.prior is not None:
        arrays[f"{prefix}.prior.degrees"] = rows.prior.degrees
        pack_matrix(f"{prefix}.prior", rows.prior.prior, arrays, partition)
    return {
        "transform": {"kind": rows.transform.kind, "n_features": rows.transform.n_features},
        "share": facts,
        "prior": None if rows.prior is None else rows.prior.kind,
        "n_candidates": rows.n_candidates,
    }


def unpack_new_rows(
    page: dict[str, Any], arrays: dict[str, np.ndarray], prefix: str = "new_rows"
) -> NewRowProblem:
    """Return the graph problem of new rows from the output of :func:`pack_new_rows`."""
    transform = f"{prefix}.transform."
    scale, shift = (unpack_matrix(transform + name, arrays) for name in ("scale", "shift"))
    prior = None
    if page["prior"] is not None:
        matrix = unpack_matrix(f"{prefix}.prior", arrays)
        prior = PriorGraph(page["prior"], arrays[f"{prefix}.prior.degrees"], matrix)
    share = f"{prefix}.share."
    shares = {name.removeprefix(share): a for name, a in arrays.items() if name.startswith(share)}
    return NewRowProblem(
        FeatureSignal(page["transform"]["kind"], page["transform"]["n_features"], scale, shift),
        unpack_matrix(f"{prefix}.signal", arrays),
        RowCoefficients.from_arrays(shares, page["share"]),
        prior,
        page["n_candidates"],
    )
