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
import scipy.sparse as sp
from numpy.lib import format as npy

from glnn._utils import check_choice
from glnn.data.files import atomic_write, check_file, parsing, shown, shown_path, without_warnings
from glnn.data.node_data import SPLIT_KEYS, NodeData, checked_csr, symmetric_from_pairs, upper_pairs
from glnn.exceptions import DataFormatError, InputError

# --- zip_list: Zip archives, whose list of members is measured before it is read into memory

MAX_LIST = 2**20
"""Bytes of the list of members: room for thousands of them."""

_END = b"PK\x05\x06"
_END_SIZE, _END_64_SIZE = 22, 76  # with the locator that stands between the two
_END_64 = b"PK\x06\x06"
_COMMENT = 2**16


def opened_zip(path: Path) -> zipfile.ZipFile:
    """Open an archive; one whose list of members would take much memory is refused unread."""
    n_bytes = _list_size(path)
    if n_bytes > MAX_LIST:
        raise DataFormatError(
            f"{shown_path(path)} must list its members in at most {MAX_LIST:,} bytes, "
            f"got {n_bytes:,}. Nothing was unpacked."
        )
    return zipfile.ZipFile(path)


def _list_size(path: Path) -> int:
    """Return the size that the end of the archive declares, found where ``zipfile`` looks."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _COMMENT - _END_SIZE - _END_64_SIZE))
        tail = file.read()
    end = tail[-_END_SIZE:]
    has_comment = not (end.startswith(_END) and end.endswith(b"\0\0"))
    place = tail.rfind(_END) if has_comment else len(tail) - _END_SIZE
    if place < 0 or len(tail) - place < _END_SIZE:
        return 0  # no archive, which zipfile says in its own words
    size: int = struct.unpack_from("<L", tail, place + 12)[0]
    if place >= _END_64_SIZE and tail.startswith(_END_64, place - _END_64_SIZE):
        size = struct.unpack_from("<Q", tail, place - _END_64_SIZE + 40)[0]
    return size


# --- npz: Reading npz archives without pickle, and without trusting the sizes they declare

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


# --- node_npz: A :class:`NodeData` as one npz file: the format of the published sets, with a few e

DEFAULT_GRAPH = "default"


def read_node_npz(path: str | Path, *, graph: str = DEFAULT_GRAPH) -> NodeData:
    """Read a record from an npz file.

    Parameters
    ----------
    path
        The file. ``features_*`` (CSR) and ``labels`` must be there; ``edge_index``,
        ``class_names``, ``*_idx``, ``unlabeled_idx``, ``ids`` and ``feature_names`` may be.
    graph
        Which graph to take where the file holds more than one: ``"default"`` is ``edge_index``,
        ``"loc_org"`` is ``edge_index_loc_org``.

    Returns
    -------
    NodeData
        Labels of nodes in ``unlabeled_idx`` are -1.
    """
    path = Path(path)
    with NpzFile(path) as file, parsing(path, "npz"):
        shape = declared_shape(file)
        features = checked_csr(
            file.read("features_data", kinds="fiub", ndim=1),
            file.read("features_indices", kinds="iu", ndim=1),
            file.read("features_indptr", kinds="iu", ndim=1),
            shape,
        )
        return record_of(file, features).replace(graph=_graph(file, graph, shape[0]))


def record_of(file: NpzFile, features: sp.csr_matrix) -> NodeData:
    """Return these features with all else that a file knows of their rows, but for the graph."""
    labels = labels_of(file, features.shape[0])
    return NodeData(
        features=features,
        labels=labels,
        class_names=class_names_of(file, labels),
        splits=splits_of(file),
        ids=file.read("ids", kinds="iuU", ndim=1) if "ids" in file else None,
        name=str(file.read("name", kinds="U", ndim=0)) if "name" in file else file.path.stem,
        provenance=_provenance(file),
        feature_names=_names(file, "feature_names") if "feature_names" in file else None,
    )


def declared_shape(file: NpzFile) -> tuple[int, int]:
    """Return the numbers of nodes and features, if what every array declares agrees with them."""
    if "features_shape" not in file:
        held = ", ".join(list(file.headers)[:6]) or "nothing"
        raise DataFormatError(
            f"{file.path.name} must hold features_shape and the other arrays of a data set, "
            f"got {held}."
        )
    declared = file.read("features_shape", kinds="iu", ndim=1)
    if declared.size != 2 or declared.min() < 1 or declared.max() >= 2**40:
        raise DataFormatError(
            f"features_shape in {file.path.name} must be two sensible sizes, got "
            f"{declared.tolist()[:4]}."
        )
    n_nodes, n_features = int(declared[0]), int(declared[1])
    expected = {"features_indptr": (n_nodes + 1,), "labels": (n_nodes,), "ids": (n_nodes,)}
    for name, shape in expected.items():
        if name in file and file.headers[name].shape != shape:
            raise DataFormatError(
                f"{name!r} in {file.path.name} must have shape {shape} for {n_nodes} nodes, got "
                f"{file.headers[name].shape}. Nothing was unpacked."
            )
    return n_nodes, n_features


def labels_of(file: NpzFile, n_nodes: int) -> np.ndarray:
    """Return the class numbers, -1 for unlabelled nodes."""
    if "labels" not in file:
        return np.full(n_nodes, -1, dtype=np.int64)
    labels = file.read("labels", kinds="iu", ndim=1).astype(np.int64)
    if "unlabeled_idx" in file:
        unlabelled = file.read("unlabeled_idx", kinds="iu", ndim=1)
        if unlabelled.size and (unlabelled.min() < 0 or unlabelled.max() >= n_nodes):
            raise DataFormatError("unlabeled_idx must hold node numbers, got others.")
        labels[unlabelled] = -1
    return labels


def splits_of(file: NpzFile) -> dict[str, np.ndarray]:
    """Return the nodes of each part of the split that the file has."""
    return {
        key: file.read(f"{key}_idx", kinds="iu", ndim=1)
        for key in SPLIT_KEYS
        if f"{key}_idx" in file
    }


def class_names_of(file: NpzFile, labels: np.ndarray) -> tuple[str, ...]:
    """Return the class names, or numbers where the file has none."""
    if "class_names" in file:
        return _names(file, "class_names")
    return tuple(str(c) for c in range(min(int(labels.max(initial=-1)) + 1, labels.size)))


def _names(file: NpzFile, name: str) -> tuple[str, ...]:
    return tuple(file.read(name, kinds="U", ndim=1).tolist())


def _graph(file: NpzFile, graph: str, n_nodes: int) -> sp.csr_matrix | None:
    pairs, weights = weighted_pairs(file, graph)
    if pairs is None:
        return None
    return symmetric_from_pairs(pairs[0], pairs[1], n_nodes, weights)


def weighted_pairs(
    file: NpzFile, graph: str = DEFAULT_GRAPH
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Return the pairs of a graph (2 x E) and their weights, ``None`` where there are none."""
    found = [name.removeprefix("edge_index_") for name in file.headers if "edge_index_" in name]
    check_choice("graph", graph, [DEFAULT_GRAPH, *sorted(found)])
    key = "edge_index" if graph == DEFAULT_GRAPH else f"edge_index_{graph}"
    if key not in file:
        return None, None
    pairs = file.read(key, kinds="iu", ndim=2)
    if pairs.shape[0] != 2:
        raise DataFormatError(f"{key} must have two rows, got {pairs.shape[0]}.")
    weight = None
    if "edge_weight" in file and graph == DEFAULT_GRAPH:
        weight = file.read("edge_weight", kinds="f", ndim=1)
        if weight.size != pairs.shape[1] or not np.isfinite(weight).all():
            raise DataFormatError("edge_weight must hold one finite number for each edge.")
    return pairs, weight


def _provenance(file: NpzFile) -> dict[str, str]:
    if "provenance" not in file:
        return {}
    pairs = file.read("provenance", kinds="U", ndim=2)
    if pairs.shape[1] != 2:
        raise DataFormatError("provenance must hold pairs of text.")
    return {str(key): str(value) for key, value in pairs.tolist()}


def write_node_npz(
    data: NodeData, path: str | Path, *, other_graphs: Mapping[str, sp.csr_matrix] | None = None
) -> None:
    """Write a record as npz, readable by :func:`read_node_npz` and ``numpy.load`` alike.

    Parameters
    ----------
    data
        The record.
    path
        Where to write; an existing file is replaced, whole or not at all.
    other_graphs
        More graphs on the same nodes, by name, without weights.
    """
    unlabelled = np.flatnonzero(data.labels < 0)
    arrays = {
        "features_data": data.features.data,
        "features_indices": data.features.indices,
        "features_indptr": data.features.indptr,
        "features_shape": np.array(data.features.shape, dtype=np.int64),
        "labels": np.maximum(data.labels, 0),
        "class_names": text_array(data.class_names),
        "name": np.array(data.name, dtype=np.str_),
    }
    if unlabelled.size:
        arrays["unlabeled_idx"] = unlabelled
    if data.graph is not None:
        rows, columns, weights = upper_pairs(data.graph)
        arrays["edge_index"] = np.stack([rows, columns])
        if (weights != 1).any():
            arrays["edge_weight"] = weights
    for name, other in (other_graphs or {}).items():
        arrays[f"edge_index_{name}"] = np.stack(upper_pairs(other)[:2])
    arrays.update({f"{key}_idx": nodes for key, nodes in data.splits.items()})
    if data.ids is not None:
        arrays["ids"] = data.ids
    if data.feature_names is not None:
        arrays["feature_names"] = text_array(data.feature_names)
    if data.provenance:
        arrays["provenance"] = text_array_2d(data)
    write_npz(Path(path), arrays)


def text_array_2d(data: NodeData) -> np.ndarray:
    """Return the provenance as a table of two columns."""
    pairs = [[key, value] for key, value in data.provenance.items()]
    if any("\0" in text for pair in pairs for text in pair):
        raise InputError("provenance must not hold NUL characters.")
    return np.array(pairs, dtype=np.str_)


# --- graph_npz: A graph on its own as npz: CSR arrays that SciPy reads too, with the nodes' ids


def write_graph_npz(
    path: Path, graph: Any, ids: np.ndarray | None = None, **more: np.ndarray
) -> None:
    """Write a graph so that ``scipy.sparse.load_npz`` and :func:`read_graph_npz` read it.

    ``more`` are further arrays to keep beside it.
    """
    matrix = sp.csr_matrix(graph)
    arrays = {
        "indices": matrix.indices,
        "indptr": matrix.indptr,
        "format": np.array(b"csr"),
        "shape": np.array(matrix.shape, dtype=np.int64),
        "data": matrix.data,
    }
    if ids is not None:
        arrays["ids"] = np.asarray(ids)
    write_npz(path, arrays | more)


def read_graph_npz(path: str | Path) -> tuple[sp.csr_matrix, np.ndarray | None]:
    """Read a graph and, where they are kept, the ids of its nodes.

    Returns
    -------
    tuple
        The square CSR matrix as it was written, and the ids or ``None``.
    """
    path = Path(path)
    with NpzFile(path) as file, parsing(path, "npz"):
        form = str(file.read("format", kinds="SU", ndim=0).astype(np.str_))
        shape = file.read("shape", kinds="iu", ndim=1)
        if form != "csr" or shape.size != 2 or shape[0] != shape[1] or shape[0] < 1:
            raise DataFormatError(
                f"{path.name} must hold a square CSR matrix, got {form!r} of {shape.tolist()[:3]}."
            )
        if file.headers.get("indptr") is None or file.headers["indptr"].shape != (shape[0] + 1,):
            raise DataFormatError(f"indptr in {path.name} must have {shape[0] + 1} entries.")
        matrix = checked_csr(
            file.read("data", kinds="fiu", ndim=1),
            file.read("indices", kinds="iu", ndim=1),
            file.read("indptr", kinds="iu", ndim=1),
            (int(shape[0]), int(shape[1])),
        )
        return matrix, file.read("ids", kinds="iuU", ndim=1) if "ids" in file else None
