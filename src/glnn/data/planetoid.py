"""Citation networks in the format of Planetoid: eight ``ind.NAME.*`` files, seven of them pickles.

The unpickler knows a few names only, and gives them classes of its own: nothing else can be called.
"""

import io
import pickle
import pickletools
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.data.files import check_file, one_line, quote, read_text, wrap_parse_errors
from glnn.data.node_data import NodeData, csr_from_arrays, symmetric_from_pairs
from glnn.exceptions import DataFormatError, InputError

# Pickles

_DTYPES = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


class _Dtype:
    """The dtype of an array; the state has its byte order in second place."""

    def __init__(self, code: Any, *_: Any) -> None:
        if code not in _DTYPES:
            raise DataFormatError(f"an array in a pickle must hold numbers, got {quote(code)}.")
        self.dtype: np.dtype[Any] = np.dtype(code)

    def __setstate__(self, state: Any) -> None:
        if state[1] == ">":
            self.dtype = self.dtype.newbyteorder(">")


class _Array:
    """An array; the state is (version, shape, dtype, Fortran order, bytes)."""

    def __init__(self, *_: Any) -> None:
        self.value = np.empty(0)

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, raw = state
        content = raw.encode("latin1") if isinstance(raw, str) else raw
        flat = np.frombuffer(content, dtype=dtype.dtype)
        self.value = flat.reshape(shape, order="F" if fortran else "C")


class _Csr:
    """A sparse matrix; the state has its three arrays and its shape."""

    def __setstate__(self, state: Any) -> None:
        data, indices, indptr = (state[key].value for key in ("data", "indices", "indptr"))
        n_rows, n_columns = map(int, state["_shape"])
        self.value = csr_from_arrays(data, indices, indptr, (n_rows, n_columns))


_NAMES = {
    "numpy.core.multiarray._reconstruct": _Array,
    "numpy._core.multiarray._reconstruct": _Array,
    "numpy.ndarray": _Array,
    "numpy.dtype": _Dtype,
    "scipy.sparse.csr.csr_matrix": _Csr,
    "scipy.sparse._csr.csr_matrix": _Csr,
    "collections.defaultdict": lambda *_: {},
    "__builtin__.list": list,  # the default of a defaultdict
    "builtins.list": list,
    "__builtin__.bytes": lambda: b"",  # protocol 2 writes empty bytes as a call of bytes()
    "_codecs.encode": lambda text, _: text.encode("latin1"),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: Any, name: Any) -> Any:
        if f"{module}.{name}" not in _NAMES:
            raise DataFormatError(
                f"a pickle may name NumPy and SciPy arrays only, got {quote(f'{module}.{name}')}. "
                "Nothing was run; do not trust this file."
            )
        return _NAMES[f"{module}.{name}"]


def read_pickle(raw: bytes) -> Any:
    """Return the array, matrix or lists of a pickle; refuse all other names."""
    for opcode, argument, _ in pickletools.genops(raw):
        if "PUT" in opcode.name and int(argument or 0) > len(raw):  # would reserve as much memory
            raise DataFormatError("a pickle must number its objects one by one, got a gap.")
    value = _Unpickler(io.BytesIO(raw), encoding="latin1").load()
    return value.value if isinstance(value, _Array | _Csr) else value


# Data sets

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph")
N_VAL = 500

# Facts about published sets. The files have class numbers only, the names are from there.
PUBLISHED = tomllib.loads(Path(__file__).with_name("published.toml").read_text(encoding="utf-8"))


def read_planetoid(folder: str | Path, name: str | None = None) -> NodeData:
    """Read the ``ind.NAME.*`` files of a folder, with their public split.

    ``name`` is optional if the folder holds one data set. Nodes without a row in the files (15 in
    Citeseer) get empty features and label -1. The first rows are the training nodes, the next 500
    the validation nodes, and ``test.index`` lists the test nodes.
    """
    folder = Path(folder)
    if name is None:
        names = sorted(path.name[4:-5] for path in folder.glob("ind.*.allx"))
        if len(names) != 1:
            raise InputError(
                f"{folder} must hold one Planetoid set for this, got "
                f"{', '.join(names[:5]) if names else 'no ind.NAME.allx file'}. Name one of its "
                "files, such as ind.cora.allx."
            )
        name = names[0]
    parts = {}
    for part in PARTS:
        path = check_file(folder / f"ind.{name}.{part}", max_bytes=2**31)
        with wrap_parse_errors(path, "Planetoid"):
            try:
                parts[part] = read_pickle(path.read_bytes())
            except (DataFormatError, pickle.UnpicklingError) as error:
                raise DataFormatError(f"{path.name}: {one_line(error, limit=300)}") from error
    path = folder / f"ind.{name}.test.index"
    with wrap_parse_errors(path, "Planetoid"):
        words = read_text(path).split()
        if not words or not all(word.isdecimal() and len(word) < 10 for word in words):
            raise DataFormatError(f"{path.name} must list node numbers, one a line.")
        return _assemble(name, parts, np.array(words, dtype=np.int64))


def _assemble(name: str, parts: dict[str, Any], test: np.ndarray) -> NodeData:
    n_known, n_train, n_nodes = parts["allx"].shape[0], len(parts["y"]), int(test.max()) + 1
    if test.min() < n_known or test.max() >= n_known + 10 * test.size + 1000:
        raise DataFormatError(
            f"test.index must number nodes from {n_known} on without large gaps, got "
            f"{test.min()} to {test.max()} for {test.size} nodes."
        )
    rows = np.concatenate([np.arange(n_known), test])
    stacked = sp.vstack([parts["allx"], parts["tx"]], format="coo")
    if not stacked.shape[0] == rows.size == np.unique(rows).size:
        raise DataFormatError(
            f"tx must have a row for each different number of test.index, got {test.size} numbers."
        )
    one_hot, labels = np.concatenate([parts["ally"], parts["ty"]]), np.full(n_nodes, -1)
    if not np.isin(one_hot, (0, 1)).all() or (one_hot.sum(axis=1) > 1).any():
        raise DataFormatError("ally and ty must hold at most one 1 in each row, got other values.")
    labels[rows] = np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1)
    names = PUBLISHED.get(name, {}).get("class_names")
    features = (stacked.data, (rows[stacked.row], stacked.col))
    splits = {
        "train": np.arange(n_train),
        "val": np.arange(n_train, min(n_train + N_VAL, n_known)),
        "test": test,
    }
    return NodeData(
        features=sp.csr_matrix(features, shape=(n_nodes, stacked.shape[1])),
        labels=labels,
        graph=_build_graph(parts["graph"], n_nodes),
        class_names=tuple(names or map(str, range(one_hot.shape[1]))),
        splits={key: nodes[labels[nodes] >= 0] for key, nodes in splits.items()},
        name=name,
        provenance={"format": "Planetoid ind.* files"},
    )


def _build_graph(neighbours: Any, n_nodes: int) -> sp.csr_matrix:
    if not isinstance(neighbours, dict) or not all(type(v) is list for v in neighbours.values()):
        raise DataFormatError("graph must hold a list of neighbours for each node.")
    # One list under many keys would expand to far more than the file.
    if len({id(others) for others in neighbours.values()}) != len(neighbours):
        raise DataFormatError("graph must hold each list once, got one list named twice.")
    for node, others in neighbours.items():
        if not all(type(other) is int and 0 <= other < n_nodes for other in (node, *others)):
            raise DataFormatError(
                f"graph must name nodes in [0, {n_nodes}), got others at node {quote(node)}."
            )
    source = np.repeat(list(neighbours), [len(others) for others in neighbours.values()])
    target = np.array([o for others in neighbours.values() for o in others], dtype=np.int64)
    return symmetric_from_pairs(source, target, n_nodes)
