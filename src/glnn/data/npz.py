"""Records and graphs as npz files.

Files are read without pickle, and the sizes that they declare are checked before memory is used.
"""

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
from glnn.data.files import (
    atomic_write,
    check_file,
    ignore_warnings,
    quote,
    quote_path,
    wrap_parse_errors,
)
from glnn.data.node_data import (
    SPLIT_KEYS,
    NodeData,
    csr_from_arrays,
    symmetric_from_pairs,
    upper_triangle,
)
from glnn.exceptions import DataFormatError, InputError

# Zip archives

MAX_DIRECTORY_BYTES = 2**20  # size of the central directory: room for thousands of members
_EOCD = b"PK\x05\x06"  # signature of the "end of central directory" record
_EOCD_SIZE, _EOCD_64_SIZE = 22, 76  # the second with the locator between the two records
_EOCD_64 = b"PK\x06\x06"
_MAX_COMMENT_BYTES = 2**16


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open an archive; refuse one with a huge central directory before reading it."""
    n_bytes = _directory_size(path)
    if n_bytes > MAX_DIRECTORY_BYTES:
        raise DataFormatError(
            f"{quote_path(path)} must list its members in at most {MAX_DIRECTORY_BYTES:,} bytes, "
            f"got {n_bytes:,}. Nothing was unpacked."
        )
    return zipfile.ZipFile(path)


def _directory_size(path: Path) -> int:
    """Return the size of the central directory that the end record declares.

    The end record is searched in the same way as by ``zipfile``.
    """
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _MAX_COMMENT_BYTES - _EOCD_SIZE - _EOCD_64_SIZE))
        tail = file.read()
    end = tail[-_EOCD_SIZE:]
    has_comment = not (end.startswith(_EOCD) and end.endswith(b"\0\0"))
    position = tail.rfind(_EOCD) if has_comment else len(tail) - _EOCD_SIZE
    if position < 0 or len(tail) - position < _EOCD_SIZE:
        return 0  # not an archive: zipfile raises the error
    size: int = struct.unpack_from("<L", tail, position + 12)[0]
    if position >= _EOCD_64_SIZE and tail.startswith(_EOCD_64, position - _EOCD_64_SIZE):
        size = struct.unpack_from("<Q", tail, position - _EOCD_64_SIZE + 40)[0]
    return size


# Arrays

MAX_BYTES = 2**35  # no archive may unpack to more than 32 GiB
SMALL_BYTES = 2**28  # an archive that unpacks to more than 256 MiB ...
MAX_EXPANSION = 250  # ... may unpack to at most this multiple of its size
MIN_STORED_BYTES = 2**26  # arrays from 64 MiB on are not compressed, so that slices can be read
MAX_MEMBERS = 256
MAX_HEADER = 4096
_LOCAL_HEADER = struct.Struct("<26sHH")
_PLAIN_DTYPE = re.compile(r"[<>|=]?[?biufcSUO][0-9]{0,9}")


class ArrayHeader(NamedTuple):
    """The header of an npy file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    fortran: bool  # stored column by column
    offset: int  # bytes before the first entry


class NpzFile:
    """An npz archive whose declared sizes have been checked; arrays are read one by one.

    Use it as a context manager. ``headers`` maps the name of each array to its header, so that
    shapes can be compared before any array is read.
    """

    def __init__(self, path: Path) -> None:
        check_file(path, max_bytes=MAX_BYTES)
        self.path = path
        with wrap_parse_errors(path, "npz"):
            self._zip = open_zip(path)
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
        """Read an array, which must have a dtype among ``kinds`` and ``ndim`` dimensions."""
        if name not in self.headers:
            raise DataFormatError(f"{self.path.name} must hold the array {name!r}, got none.")
        header = self.headers[name]
        if header.dtype.kind not in kinds or len(header.shape) != ndim:
            raise DataFormatError(
                f"{name!r} in {self.path.name} must have {ndim} dimension(s) and dtype kind "
                f"{'/'.join(kinds)}, got shape {header.shape} and dtype {header.dtype}."
            )
        with wrap_parse_errors(self.path, "npz"), self._zip.open(name + ".npy") as file:
            raw = file.read()[header.offset :]
        _check_code_points(name, header.dtype, raw)
        flat = np.frombuffer(raw, dtype=header.dtype)
        return flat.reshape(header.shape, order="F" if header.fortran else "C").copy()

    def can_read_slices(self, name: str) -> bool:
        """Whether the file holds this array without compression."""
        if name not in self.headers:
            return False
        member = self._zip.getinfo(name + ".npy")
        return (
            member.compress_type == zipfile.ZIP_STORED and member.compress_size == member.file_size
        )

    def read_slice(self, name: str, start: int, stop: int, *, kinds: str) -> np.ndarray:
        """Read the entries ``start:stop`` of an uncompressed array of one dimension.

        :meth:`can_read_slices` must hold, and its dtype must be among ``kinds``.
        """
        header, member = self.headers[name], self._zip.getinfo(name + ".npy")
        if header.dtype.kind not in kinds or len(header.shape) != 1:
            raise DataFormatError(
                f"{name!r} in {self.path.name} must have one dimension and dtype kind "
                f"{'/'.join(kinds)}, got shape {header.shape} and dtype {header.dtype}."
            )
        size = header.dtype.itemsize
        with wrap_parse_errors(self.path, "npz"), self.path.open("rb") as file:
            file.seek(member.header_offset)
            local = file.read(_LOCAL_HEADER.size)
            _, n_name, n_extra = _LOCAL_HEADER.unpack(local)
            begin = member.header_offset + _LOCAL_HEADER.size + n_name + n_extra + header.offset
            file.seek(begin + start * size)
            raw = file.read((stop - start) * size)
        return np.frombuffer(raw, dtype=header.dtype).copy()

    @property
    def digest(self) -> str:
        """SHA-256 of the names, sizes and checksums of the arrays."""
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
                    f"{self.path.name} must hold arrays only, got {quote(member.filename)}."
                )
            with self._zip.open(member) as file:
                headers[member.filename[:-4]] = _read_header(self.path, file, member)
        return headers


def _check_expansion(path: Path, unpacked: int) -> None:
    packed = path.stat().st_size
    if unpacked > MAX_BYTES or unpacked > max(SMALL_BYTES, MAX_EXPANSION * packed):
        raise DataFormatError(
            f"{path.name} must unpack to a sensible size, got {unpacked:,} bytes from a file of "
            f"{packed:,}. Nothing was unpacked."
        )


def _read_header(path: Path, file: Any, member: zipfile.ZipInfo) -> ArrayHeader:
    """Read the header of an array and compare the declared size with the size of the member."""
    label = f"{quote(member.filename)} in {path.name}"
    header = _parse_header(label, file)
    if header.dtype.hasobject or header.dtype.itemsize == 0:  # size 0 would fit any shape
        raise DataFormatError(
            f"{label} must hold numbers or text, got {_describe_dtype(header.dtype)}. "
            "Nothing was run; save it without pickle."
        )
    size = header.dtype.itemsize
    for length in header.shape:
        size *= length
    available = member.file_size - header.offset
    if min(header.shape, default=0) < 0 or size != available:
        raise DataFormatError(
            f"{label} must hold the {size:,} bytes of its shape {header.shape}, got {available:,}. "
            "Nothing was unpacked."
        )
    return header


def _parse_header(label: str, file: Any) -> ArrayHeader:
    """Parse an npy header: magic string, version, length, and a literal of three fields."""
    start = file.read(8)
    if start[:6] != b"\x93NUMPY" or start[6:8] not in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        raise DataFormatError(f"{label} must be an array in npy format, got something else.")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(file.read(width), "little")
    if length > MAX_HEADER:
        raise DataFormatError(f"{label} must have a header of at most {MAX_HEADER} bytes.")
    text = file.read(length).decode("utf-8" if start[6] == 3 else "latin1")
    with ignore_warnings():
        fields = ast.literal_eval(text.strip())
    shape, code = fields["shape"], fields["descr"]
    if not isinstance(code, str) or not _PLAIN_DTYPE.fullmatch(code) or type(shape) is not tuple:
        raise DataFormatError(f"{label} must be a plain array, got another kind.")
    if not all(type(size) is int for size in shape) or len(shape) > 4:
        raise DataFormatError(f"{label} must have at most four whole sizes, got {quote(shape)}.")
    return ArrayHeader(shape, np.dtype(code), fields["fortran_order"] is True, 8 + width + length)


def _check_code_points(name: str, dtype: np.dtype[Any], raw: bytes) -> None:
    """Refuse code points beyond Unicode: NumPy accepts them, but Python cannot print them."""
    if dtype.kind == "U" and raw:
        points = np.frombuffer(raw, dtype=np.dtype(np.uint32).newbyteorder(dtype.byteorder))
        if points.max() > 0x10FFFF:
            raise DataFormatError(f"{name!r} must be Unicode text, got other numbers.")


def _describe_dtype(dtype: np.dtype[Any]) -> str:
    return "Python objects" if dtype.hasobject else f"dtype {dtype}"


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays atomically, small ones compressed; equal arrays give equal bytes."""
    with atomic_write(path, "wb") as target, zipfile.ZipFile(target, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(name + ".npy", date_time=(1980, 1, 1, 0, 0, 0))
            packed = np.asarray(array).nbytes < MIN_STORED_BYTES
            entry.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            with archive.open(entry, "w", force_zip64=True) as file:
                npy.write_array(file, np.asarray(array, order="C"), allow_pickle=False)


def to_text_array(texts: Iterable[str]) -> np.ndarray:
    """Return a Unicode array, also if there are no texts."""
    return np.array(list(texts), dtype=np.str_)


# Records

DEFAULT_GRAPH = "default"


def read_node_npz(path: str | Path, *, graph: str = DEFAULT_GRAPH) -> NodeData:
    """Read a record from an npz file.

    The file must hold ``features_*`` (CSR); ``labels``, ``edge_index``, ``class_names``, ``*_idx``,
    ``unlabeled_idx`` (nodes with label -1), ``ids`` and ``feature_names`` are optional. ``graph``
    names the graph: ``"default"`` is ``edge_index``, ``"loc_org"`` is ``edge_index_loc_org``.
    """
    path = Path(path)
    with NpzFile(path) as file, wrap_parse_errors(path, "npz"):
        shape = read_shape(file)
        features = csr_from_arrays(
            file.read("features_data", kinds="fiub", ndim=1),
            file.read("features_indices", kinds="iu", ndim=1),
            file.read("features_indptr", kinds="iu", ndim=1),
            shape,
        )
        return read_record(file, features).replace(graph=_read_graph(file, graph, shape[0]))


def read_record(file: NpzFile, features: sp.csr_matrix) -> NodeData:
    """Read the record of these features, without its graph."""
    labels = read_labels(file, features.shape[0])
    return NodeData(
        features=features,
        labels=labels,
        class_names=read_class_names(file, labels),
        splits=read_splits(file),
        ids=file.read("ids", kinds="iuU", ndim=1) if "ids" in file else None,
        name=str(file.read("name", kinds="U", ndim=0)) if "name" in file else file.path.stem,
        provenance=_read_provenance(file),
        feature_names=_read_names(file, "feature_names") if "feature_names" in file else None,
    )


def read_shape(file: NpzFile) -> tuple[int, int]:
    """Read the numbers of nodes and features, and check the shapes of the other arrays."""
    if "features_shape" not in file:
        found = ", ".join(list(file.headers)[:6]) or "nothing"
        raise DataFormatError(
            f"{file.path.name} must hold features_shape and the other arrays of a data set, "
            f"got {found}."
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


def read_labels(file: NpzFile, n_nodes: int) -> np.ndarray:
    """Read the class numbers, -1 for unlabelled nodes."""
    if "labels" not in file:
        return np.full(n_nodes, -1, dtype=np.int64)
    labels = file.read("labels", kinds="iu", ndim=1).astype(np.int64)
    if "unlabeled_idx" in file:
        unlabelled = file.read("unlabeled_idx", kinds="iu", ndim=1)
        if unlabelled.size and (unlabelled.min() < 0 or unlabelled.max() >= n_nodes):
            raise DataFormatError("unlabeled_idx must hold node numbers, got others.")
        labels[unlabelled] = -1
    return labels


def read_splits(file: NpzFile) -> dict[str, np.ndarray]:
    """Read the nodes of each part of the split in the file."""
    return {
        key: file.read(f"{key}_idx", kinds="iu", ndim=1)
        for key in SPLIT_KEYS
        if f"{key}_idx" in file
    }


def read_class_names(file: NpzFile, labels: np.ndarray) -> tuple[str, ...]:
    """Read the class names; they default to the class numbers."""
    if "class_names" in file:
        return _read_names(file, "class_names")
    return tuple(str(c) for c in range(min(int(labels.max(initial=-1)) + 1, labels.size)))


def _read_names(file: NpzFile, name: str) -> tuple[str, ...]:
    return tuple(file.read(name, kinds="U", ndim=1).tolist())


def _read_graph(file: NpzFile, graph: str, n_nodes: int) -> sp.csr_matrix | None:
    pairs, weights = read_pairs(file, graph)
    if pairs is None:
        return None
    return symmetric_from_pairs(pairs[0], pairs[1], n_nodes, weights)


def read_pairs(
    file: NpzFile, graph: str = DEFAULT_GRAPH
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Read the node pairs of a graph (2 x E) and their weights, ``None`` if there are none."""
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


def _read_provenance(file: NpzFile) -> dict[str, str]:
    if "provenance" not in file:
        return {}
    pairs = file.read("provenance", kinds="U", ndim=2)
    if pairs.shape[1] != 2:
        raise DataFormatError("provenance must hold pairs of text.")
    return {str(key): str(value) for key, value in pairs.tolist()}


def write_node_npz(
    data: NodeData, path: str | Path, *, other_graphs: Mapping[str, sp.csr_matrix] | None = None
) -> None:
    """Write a record as npz, for :func:`read_node_npz` and ``numpy.load``.

    An existing file is replaced atomically. ``other_graphs`` are further graphs on the same nodes,
    by name; their weights are not written.
    """
    unlabelled = np.flatnonzero(data.labels < 0)
    arrays = {
        "features_data": data.features.data,
        "features_indices": data.features.indices,
        "features_indptr": data.features.indptr,
        "features_shape": np.array(data.features.shape, dtype=np.int64),
        "labels": np.maximum(data.labels, 0),
        "class_names": to_text_array(data.class_names),
        "name": np.array(data.name, dtype=np.str_),
    }
    if unlabelled.size:
        arrays["unlabeled_idx"] = unlabelled
    if data.graph is not None:
        rows, columns, weights = upper_triangle(data.graph)
        arrays["edge_index"] = np.stack([rows, columns])
        if (weights != 1).any():
            arrays["edge_weight"] = weights
    for name, other in (other_graphs or {}).items():
        arrays[f"edge_index_{name}"] = np.stack(upper_triangle(other)[:2])
    arrays.update({f"{key}_idx": nodes for key, nodes in data.splits.items()})
    if data.ids is not None:
        arrays["ids"] = data.ids
    if data.feature_names is not None:
        arrays["feature_names"] = to_text_array(data.feature_names)
    if data.provenance:
        arrays["provenance"] = provenance_array(data)
    write_npz(Path(path), arrays)


def provenance_array(data: NodeData) -> np.ndarray:
    """Return the provenance as a table of two columns."""
    pairs = [[key, value] for key, value in data.provenance.items()]
    if any("\0" in text for pair in pairs for text in pair):
        raise InputError("provenance must not hold NUL characters.")
    return np.array(pairs, dtype=np.str_)


# Graphs without features


def write_graph_npz(
    path: Path, graph: Any, ids: np.ndarray | None = None, **more: np.ndarray
) -> None:
    """Write a graph for :func:`read_graph_npz` and ``scipy.sparse.load_npz``.

    ``more`` are further arrays for the same file.
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
    """Read a square CSR matrix and the ids of its nodes, ``None`` if the file has no ids."""
    path = Path(path)
    with NpzFile(path) as file, wrap_parse_errors(path, "npz"):
        form = str(file.read("format", kinds="SU", ndim=0).astype(np.str_))
        shape = file.read("shape", kinds="iu", ndim=1)
        if form != "csr" or shape.size != 2 or shape[0] != shape[1] or shape[0] < 1:
            raise DataFormatError(
                f"{path.name} must hold a square CSR matrix, got {form!r} of {shape.tolist()[:3]}."
            )
        if file.headers.get("indptr") is None or file.headers["indptr"].shape != (shape[0] + 1,):
            raise DataFormatError(f"indptr in {path.name} must have {shape[0] + 1} entries.")
        matrix = csr_from_arrays(
            file.read("data", kinds="fiu", ndim=1),
            file.read("indices", kinds="iu", ndim=1),
            file.read("indptr", kinds="iu", ndim=1),
            (int(shape[0]), int(shape[1])),
        )
        return matrix, file.read("ids", kinds="iuU", ndim=1) if "ids" in file else None
