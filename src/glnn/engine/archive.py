"""A folder of named arrays (safetensors) and a JSON page about them: saved models, no pickle."""

import hashlib
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from safetensors import SafetensorError
from safetensors.numpy import load
from torch import nn

from glnn.data.files import (
    atomic_write,
    is_replaceable,
    one_line,
    only_writer,
    shown,
    shown_path,
    swapped,
)
from glnn.distributed import ALONE, Partition, Peers, agreed
from glnn.engine.settings import FitSettings, GraphSettings, HeadSettings
from glnn.exceptions import CheckpointError, GlnnError, InputError
from glnn.objective import Weights
from glnn.objective.base import RowShare
from glnn.solver import FeatureSignal, NewRowProblem
from glnn.solver.signals import PriorRows

# --- array_file: Named arrays in one safetensors file, written piece by piece, also from several p

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


# --- sealed: Pages of JSON that notice when they were changed, and digests of what an answer depen

_SEAL = "page_sha256"
_MOST_BYTES = 2**30
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


def write_sealed(path: Path, kind: str, version: int, page: Mapping[str, Any]) -> None:
    """Write a page of JSON whole or not at all, with its kind, version and digest."""
    page = {"format": kind, "version": version, **page}
    with atomic_write(path) as file:
        file.write(json.dumps({_SEAL: _digest(page), **page}, indent=1))


def read_sealed(
    path: Path, kind: str, version: int, advice: str = "Remove its folder to start anew"
) -> dict[str, Any]:
    """Read a page that :func:`write_sealed` wrote; refuse anything else in one line.

    Parameters
    ----------
    path
        The file.
    kind, version
        What it must be.
    advice
        What to do where it is not.
    """
    name = shown_path(path)
    if path.is_file() and path.stat().st_size > _MOST_BYTES:
        raise CheckpointError(f"{name} must have at most {_MOST_BYTES:,} bytes. {advice}.")
    try:
        page = {**json.loads(path.read_text(encoding="utf-8"))}
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{name} cannot be read: {type(error).__name__}. {advice}.") from None
    if page.get("format") != kind or page.get("version") != version:
        raise CheckpointError(
            f"{name} must be a {kind} of format {version}, got {shown(page.get('version'))}. "
            f"{advice}, or use the version of glnn that wrote it."
        )
    if page.pop(_SEAL, None) != _digest(page):
        raise CheckpointError(f"{name} was damaged. {advice}.")
    return page


@contextmanager
def unpacking(path: Path) -> Iterator[None]:
    """Say in one line that what was read does not hold what it must, whatever it lacks."""
    try:
        yield
    except GlnnError:
        raise
    except _UNPACK_ERRORS as error:
        reason = one_line(error) or "no detail"
        raise CheckpointError(
            f"{shown_path(path)} was damaged or is not complete: {type(error).__name__}: {reason}."
        ) from None


def digest_of(facts: str, arrays: Mapping[str, np.ndarray]) -> bytes:
    """Return the SHA-256 digest of a text and of arrays with their names, types and shapes."""
    digest = hashlib.sha256(facts.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def _digest(page: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(page, sort_keys=True).encode()).hexdigest()


# --- archive: A folder of named arrays (safetensors) and a JSON page about them: saved models, no

FORMAT = "glnn-model"
VERSION = 4
_ARRAYS, _PAGE = "model.safetensors", "model.json"


def write_archive(
    folder: Path, arrays: dict[str, np.ndarray | Spread], page: dict[str, Any], peers: Peers = ALONE
) -> None:
    """Write arrays, then the page that names their digest: a broken write is seen on reading.

    Of several processes the first writes; the others give their parts of what is spread.
    """
    agreed(peers, lambda: _make_folder(folder) if peers.rank == 0 else None)
    if peers.rank:
        write_arrays(None, arrays, peers)
        return
    with _place(folder) as place:
        with atomic_write(place / _ARRAYS, "wb") as file:
            digest = write_arrays(file.write, arrays, peers)
        write_sealed(place / _PAGE, FORMAT, VERSION, {"arrays_sha256": digest, **page})


@contextmanager
def _place(folder: Path) -> Iterator[Path]:
    """Give the folder to write in; an earlier model is replaced in one move, or stays."""
    if not (folder / _PAGE).exists() or not is_replaceable(folder):
        yield folder
        return
    with only_writer(folder.resolve()), swapped(folder, (_ARRAYS, _PAGE)) as place:
        yield place


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{folder} must be a folder that can be made, got: {error.strerror}. Name another."
        ) from None


def read_archive(folder: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Read what :func:`write_archive` wrote; refuse anything else in one line."""
    advice = "Name a folder that glnn fit or GLNNClassifier.save wrote"
    page = read_sealed(folder / _PAGE, FORMAT, VERSION, advice)
    name = shown_path(folder / _ARRAYS)
    try:
        packed = (folder / _ARRAYS).read_bytes()
        if hashlib.sha256(packed).hexdigest() != page.get("arrays_sha256"):
            raise CheckpointError(f"{name} does not belong to {_PAGE} or was damaged. {advice}.")
        return dict(load(packed)), page
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{name} cannot be read: {type(error).__name__}. {advice}.") from None


def pack_matrix(
    name: str,
    matrix: Any,
    arrays: dict[str, np.ndarray | Spread],
    partition: Partition | None = None,
) -> None:
    """Add a dense or CSR matrix to the arrays under ``name``; ``None`` adds nothing.

    With a partition each process has its rows of the matrix.
    """
    if matrix is None:
        return
    if not sp.issparse(matrix):
        arrays[name] = _spread(np.asarray(matrix), partition)
        return
    csr = sp.csr_matrix(matrix)
    offsets, n_rows = csr.indptr.astype(np.int64), csr.shape[0]
    if partition is not None:
        before = partition.counts(csr.nnz)[: partition.peers.rank].sum()
        offsets, n_rows = (offsets + before)[int(partition.peers.rank > 0) :], partition.n_nodes
    arrays[f"{name}.data"] = _spread(csr.data, partition)
    width = np.int32 if csr.shape[1] < 2**31 else np.int64  # the same in every process
    arrays[f"{name}.indices"] = _spread(csr.indices.astype(width, copy=False), partition)
    arrays[f"{name}.indptr"] = _spread(offsets, partition)
    arrays[f"{name}.shape"] = np.array([n_rows, csr.shape[1]], dtype=np.int64)


def _spread(part: np.ndarray, partition: Partition | None) -> np.ndarray | Spread:
    return part if partition is None else Spread(part)


def unpack_matrix(name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Return the matrix packed under ``name``, or ``None``."""
    if name in arrays:
        return arrays[name]
    if f"{name}.data" not in arrays:
        return None
    parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    matrix = sp.csr_matrix(parts, shape=tuple(arrays[f"{name}.shape"]))
    matrix.check_format(full_check=True)  # an index beyond the end would be read without a check
    return matrix


# --- packing: Parts of a fit as named arrays and plain values, and back: for saved models and chec

_SHARE = "new_rows.share."


def pack_networks(networks: Sequence[nn.Module], arrays: dict[str, np.ndarray | Spread]) -> None:
    """Add the parameters of networks to the arrays, in their order."""
    for place, network in enumerate(networks):
        for name, value in network.state_dict().items():
            arrays[f"network.{place}.{name}"] = value.cpu().numpy()


def fill_networks(networks: Sequence[nn.Module], arrays: dict[str, np.ndarray]) -> None:
    """Give networks the parameters that :func:`pack_networks` added."""
    for place, network in enumerate(networks):
        prefix = f"network.{place}."
        state = {
            name.removeprefix(prefix): torch.from_numpy(array.copy())
            for name, array in arrays.items()
            if name.startswith(prefix)
        }
        network.load_state_dict(state)


_HEAD_LISTS = ("cautious", "unwatched", "competitors", "unwatched_competitors", "partners")


def settings_of(page: dict[str, Any]) -> FitSettings:
    """Return the settings that were written as plain values."""
    parts: dict[str, Any] = dict(page)
    for name in ("graph", "no_graph"):
        parts[name] = graph_settings_of(page[name])
    for name in _HEAD_LISTS:
        parts[name] = tuple(HeadSettings(**head) for head in page[name])
    parts["head"] = HeadSettings(**page["head"])
    parts["plain"] = page["plain"] and HeadSettings(**page["plain"])
    return FitSettings(**parts)


def graph_settings_of(page: dict[str, Any]) -> GraphSettings:
    """Return those of the graph step, likewise."""
    changes = {
        "weights": Weights(**page["weights"]),
        "signals": tuple(page["signals"]),
        "dial": tuple(page["dial"]),
    }
    return GraphSettings(**(page | changes))


def pack_new_rows(
    rows: NewRowProblem, arrays: dict[str, np.ndarray | Spread], partition: Partition | None = None
) -> dict[str, Any]:
    """Add the one-row problem to the arrays; return its plain facts.

    With a partition each process has its rows of signals and prior graph.
    """
    shares, facts = rows.share.packed()
    arrays |= {_SHARE + name: array for name, array in shares.items()}
    for name in ("scale", "shift"):
        pack_matrix(f"new_rows.transform.{name}", getattr(rows.transform, name), arrays)
    pack_matrix("new_rows.signal", rows.signal, arrays, partition)
    if rows.prior is not None:
        arrays["new_rows.prior.degrees"] = rows.prior.degrees
        pack_matrix("new_rows.prior", rows.prior.prior, arrays, partition)
    return {
        "transform": {"kind": rows.transform.kind, "n_features": rows.transform.n_features},
        "share": facts,
        "prior": None if rows.prior is None else rows.prior.kind,
        "has_loops": rows.has_loops,
        "n_candidates": rows.n_candidates,
    }


def unpack_new_rows(page: dict[str, Any], arrays: dict[str, np.ndarray]) -> NewRowProblem:
    """Return the one-row problem that :func:`pack_new_rows` took apart."""
    transform = "new_rows.transform."
    scale, shift = (unpack_matrix(transform + name, arrays) for name in ("scale", "shift"))
    prior = None
    if page["prior"] is not None:
        matrix = unpack_matrix("new_rows.prior", arrays)
        prior = PriorRows(page["prior"], arrays["new_rows.prior.degrees"], matrix)
    shares = {name.removeprefix(_SHARE): a for name, a in arrays.items() if name.startswith(_SHARE)}
    return NewRowProblem(
        FeatureSignal(page["transform"]["kind"], page["transform"]["n_features"], scale, shift),
        unpack_matrix("new_rows.signal", arrays),
        RowShare.unpacked(shares, page["share"]),
        prior,
        page["has_loops"],
        page["n_candidates"],
    )
