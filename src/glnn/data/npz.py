"""Records and graphs as npz files.

NumPy reads the arrays without pickle, after the sizes that they declare were checked.
"""

import contextlib
import hashlib
import math
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.lib import format as npy

from glnn._utils import check_choice, check_indices
from glnn.data.files import (
    MAX_EXPANSION,
    SMALL_BYTES,
    atomic_write,
    check_file,
    quote,
    wrap_parse_errors,
)
from glnn.data.node_data import (
    SPLIT_KEYS,
    NodeData,
    csr_from_arrays,
    extract_links,
    symmetric_from_pairs,
)
from glnn.exceptions import DataFormatError

# Arrays

MAX_BYTES = 2**35  # no archive may unpack to more than 32 GiB
MIN_STORED_BYTES = 2**26  # arrays from 64 MiB on are not compressed, so that slices can be read
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class ArrayHeader(NamedTuple):
    """The header of an npy file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int  # bytes before the first entry


def open_zip(path: Path) -> zipfile.ZipFile:
    """Open an archive; refuse one that unpacks to far more than its size."""
    archive, packed = zipfile.ZipFile(path), path.stat().st_size
    unpacked = sum(member.file_size for member in archive.infolist())
    if unpacked > min(MAX_BYTES, max(SMALL_BYTES, MAX_EXPANSION * packed)):
        archive.close()
        raise DataFormatError(
            f"{path.name} must unpack to a sensible size, got {unpacked:,} bytes from a file of "
            f"{packed:,}. Nothing was unpacked."
        )
    return archive


class NpzFile:
    """An npz archive whose declared sizes have been checked; arrays are read one by one.

    Use it as a context manager. ``headers`` maps the name of each array to its header, so that
    shapes can be compared before any array is read.
    """

    def __init__(self, path: Path) -> None:
        self.path = check_file(path, max_bytes=MAX_BYTES)
        with wrap_parse_errors(path, "npz"), contextlib.ExitStack() as stack:
            self._zip = stack.enter_context(open_zip(path))
            self.headers = {
                member.filename.removesuffix(".npy"): self._read_header(member)
                for member in self._zip.infolist()
            }
            stack.pop_all()  # it stays open

    def __enter__(self) -> "NpzFile":
        return self

    def __exit__(self, *exception: object) -> None:
        self._zip.close()

    def __contains__(self, name: str) -> bool:
        return name in self.headers

    def _read_header(self, member: zipfile.ZipInfo) -> ArrayHeader:
        """Read the header of an array and compare the declared size with the member's."""
        with self._zip.open(member) as file:
            shape, _, dtype = _HEADERS[npy.read_magic(file)](file)
            offset = file.tell()
        label = f"{quote(member.filename)} in {self.path.name}"
        if dtype.kind not in "biufSU" or dtype.itemsize == 0:  # size 0 would fit any shape
            what = "Python objects" if dtype.hasobject else f"dtype {dtype}"
            raise DataFormatError(
                f"{label} must hold numbers or text, got {quote(what)}. "
                "Nothing was run; save it without pickle."
            )
        size = math.prod((dtype.itemsize, *shape))
        if min(shape, default=0) < 0 or size != member.file_size - offset:
            raise DataFormatError(
                f"{label} must hold the {size:,} bytes of its shape {shape}, got "
                f"{member.file_size - offset:,}. Nothing was unpacked."
            )
        return ArrayHeader(shape, dtype, offset)

    def read(self, name: str, *, kinds: str, ndim: int) -> np.ndarray:
        """Read an array, which must have a dtype among ``kinds`` and ``ndim`` dimensions."""
        self._check(name, kinds, ndim)
        with wrap_parse_errors(self.path, "npz"), self._zip.open(name + ".npy") as file:
            array: np.ndarray = npy.read_array(file, allow_pickle=False)
        if array.dtype.kind == "U" and array.size:  # NumPy accepts any number as a character
            points = np.frombuffer(array.tobytes(), dtype=array.dtype.str[0] + "u4")
            if points.max() > sys.maxunicode:
                raise DataFormatError(f"{name!r} must be Unicode text, got other numbers.")
        return array

    def _check(self, name: str, kinds: str, ndim: int) -> None:
        if name not in self.headers:
            raise DataFormatError(f"{self.path.name} must hold the array {name!r}, got none.")
        header = self.headers[name]
        if header.dtype.kind not in kinds or len(header.shape) != ndim:
            raise DataFormatError(
                f"{name!r} in {self.path.name} must have {ndim} dimension(s) and dtype kind "
                f"{'/'.join(kinds)}, got shape {header.shape} and dtype {header.dtype}."
            )

    def can_read_slices(self, name: str) -> bool:
        """Whether the file holds this array without compression."""
        if name not in self.headers:
            return False
        return self._zip.getinfo(name + ".npy").compress_type == zipfile.ZIP_STORED

    def read_slice(self, name: str, start: int, stop: int, *, kinds: str) -> np.ndarray:
        """Read the entries ``start:stop`` of an array for which :meth:`can_read_slices` holds."""
        self._check(name, kinds, 1)
        header, member = self.headers[name], self._zip.getinfo(name + ".npy")
        with wrap_parse_errors(self.path, "npz"):  # the local header ends with two lengths
            lengths = np.fromfile(self.path, "<u2", 2, offset=member.header_offset + 26)
            begin = member.header_offset + 30 + int(lengths.sum()) + header.offset
            begin += start * header.dtype.itemsize
            return np.fromfile(self.path, header.dtype, stop - start, offset=begin)

    @property
    def digest(self) -> str:
        """SHA-256 of the names, sizes and checksums of the arrays."""
        parts = ((m.filename, m.file_size, m.CRC) for m in self._zip.infolist())
        return hashlib.sha256(repr(list(parts)).encode()).hexdigest()


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """Write arrays atomically, small ones compressed; equal arrays give equal bytes."""
    with atomic_write(path, "wb") as target, zipfile.ZipFile(target, "w") as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(name + ".npy", date_time=(1980, 1, 1, 0, 0, 0))
            packed = np.asarray(array).nbytes < MIN_STORED_BYTES
            entry.compress_type = zipfile.ZIP_DEFLATED if packed else zipfile.ZIP_STORED
            with archive.open(entry, "w", force_zip64=True) as file:
                npy.write_array(file, np.asarray(array, order="C"), allow_pickle=False)


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
        data = read_record(file, _read_csr(file, "features_", shape))
        pairs, weights = read_pairs(file, graph)
        if pairs is None:
            return data
        return data.replace(graph=symmetric_from_pairs(pairs[0], pairs[1], shape[0], weights))


def _read_csr(file: NpzFile, prefix: str, shape: tuple[int, int]) -> sp.csr_matrix:
    return csr_from_arrays(
        file.read(f"{prefix}data", kinds="fiub", ndim=1),
        file.read(f"{prefix}indices", kinds="iu", ndim=1),
        file.read(f"{prefix}indptr", kinds="iu", ndim=1),
        shape,
    )


def read_record(file: NpzFile, features: sp.csr_matrix) -> NodeData:
    """Read the record of these features, without its graph."""

    def read(name: str, kinds: str, ndim: int = 1) -> Any:
        return file.read(name, kinds=kinds, ndim=ndim) if name in file else None

    labels, unlabelled = read("labels", "iu"), read("unlabeled_idx", "iu")
    names, feature_names = read("class_names", "U"), read("feature_names", "U")
    n_nodes = features.shape[0]
    labels = np.full(n_nodes, -1) if labels is None else labels.astype(np.int64)
    if unlabelled is not None:
        labels[check_indices("unlabeled_idx", unlabelled, n_nodes)] = -1
    n_classes = min(int(labels.max(initial=-1)) + 1, labels.size)
    parts = {key: read(f"{key}_idx", "iu") for key in SPLIT_KEYS}
    provenance = read("provenance", "U", 2)
    return NodeData(
        features=features,
        labels=labels,
        class_names=tuple(map(str, range(n_classes)) if names is None else names.tolist()),
        splits={key: nodes for key, nodes in parts.items() if nodes is not None},
        ids=read("ids", "iuU"),
        name=str(read("name", "U", 0)) if "name" in file else file.path.stem,
        provenance={} if provenance is None else dict(provenance.tolist()),
        feature_names=None if feature_names is None else tuple(feature_names.tolist()),
    )


def read_shape(file: NpzFile) -> tuple[int, int]:
    """Read the numbers of nodes and features."""
    if "features_shape" not in file:
        found = ", ".join(list(file.headers)[:6]) or "nothing"
        raise DataFormatError(
            f"{file.path.name} must hold features_shape and the other arrays of a data set, "
            f"got {found}."
        )
    declared = file.read("features_shape", kinds="iu", ndim=1).tolist()
    if len(declared) != 2 or min(declared) < 1 or max(declared) >= 2**40:
        raise DataFormatError(
            f"features_shape in {file.path.name} must be two sensible sizes, got {declared[:4]}."
        )
    n_nodes, n_features = declared
    return n_nodes, n_features


def read_pairs(
    file: NpzFile, graph: str = DEFAULT_GRAPH
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Read the node pairs of a graph (2 x E) and their weights, ``None`` if there are none."""
    found = [name.removeprefix("edge_index_") for name in file.headers if "edge_index_" in name]
    check_choice("graph", graph, [DEFAULT_GRAPH, *sorted(found)])
    key = "edge_index" if graph == DEFAULT_GRAPH else f"edge_index_{graph}"
    if key not in file:
        return None, None
    pairs, weight = file.read(key, kinds="iu", ndim=2), None
    if pairs.shape[0] != 2:
        raise DataFormatError(f"{key} must have two rows, got {pairs.shape[0]}.")
    if "edge_weight" in file and graph == DEFAULT_GRAPH:
        weight = file.read("edge_weight", kinds="f", ndim=1)
        if weight.size != pairs.shape[1] or not np.isfinite(weight).all():
            raise DataFormatError("edge_weight must hold one finite number for each edge.")
    return pairs, weight


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
        "class_names": np.array(data.class_names, dtype=np.str_),
        "name": np.array(data.name, dtype=np.str_),
    }
    if unlabelled.size:
        arrays["unlabeled_idx"] = unlabelled
    others = {f"edge_index_{name}": graph for name, graph in (other_graphs or {}).items()}
    own = {} if data.graph is None else {"edge_index": data.graph}
    for key, graph in (own | others).items():
        links = extract_links(graph)
        arrays[key] = np.stack([links.row, links.col]).astype(np.int64)
        if key in own and (links.data != 1).any():
            arrays["edge_weight"] = links.data
    arrays.update({f"{key}_idx": nodes for key, nodes in data.splits.items()})
    if data.ids is not None:
        arrays["ids"] = data.ids
    if data.feature_names is not None:
        arrays["feature_names"] = np.array(data.feature_names, dtype=np.str_)
    if data.provenance:
        arrays["provenance"] = np.array([*data.provenance.items()], dtype=np.str_)
    write_npz(Path(path), arrays)


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
        matrix = _read_csr(file, "", (int(shape[0]), int(shape[1])))
        return matrix, file.read("ids", kinds="iuU", ndim=1) if "ids" in file else None
