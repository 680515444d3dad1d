"""A folder of named arrays (safetensors) and a JSON page about them: saved models, no pickle."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from safetensors import SafetensorError
from safetensors.numpy import load

from glnn.data.files import atomic_write, shown_path
from glnn.data.lock import only_writer
from glnn.data.swap import is_replaceable, swapped
from glnn.engine.array_file import Spread, write_arrays
from glnn.engine.sealed import read_sealed, write_sealed
from glnn.exceptions import CheckpointError, InputError
from glnn.peers import ALONE, Partition, Peers
from glnn.peers.group import agreed

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
