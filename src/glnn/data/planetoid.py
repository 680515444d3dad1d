"""Citation networks in the format of Planetoid: eight ``ind.NAME.*`` files.

Seven of them are pickles, read by an interpreter that runs no code.
"""

import pickletools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.data.files import check_file, ignore_warnings, quote, read_text, wrap_parse_errors
from glnn.data.node_data import NodeData, csr_from_arrays, symmetric_from_pairs
from glnn.exceptions import DataFormatError, InputError

# Arrays of a pickle

_DTYPES = ("f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")


class Name:
    """Placeholder for an allowed name of a pickle."""

    def __init__(self, role: str) -> None:
        self.role = role


class Part:
    """Placeholder for an array, dtype or matrix until its state has been read."""

    def __init__(self, role: str, arguments: tuple[Any, ...]) -> None:
        self.role, self.arguments, self.state = role, arguments, None


def is_whole(values: Iterable[Any]) -> bool:
    """Whether all values are plain integers."""
    return all(type(value) is int for value in values)


def build_array(part: Part) -> np.ndarray:
    """Build an array from (version, shape, dtype, Fortran order, bytes)."""
    state = part.state
    if part.role != "new_array" or not isinstance(state, tuple) or len(state) != 5:
        raise DataFormatError("an array in a pickle must have five parts of state, got others.")
    _, shape, dtype_part, fortran, raw = state
    dtype = _dtype(dtype_part)
    if (
        not isinstance(shape, tuple)
        or not is_whole(shape)
        or len(shape) > 2
        or min(shape, default=0) < 0
    ):
        raise DataFormatError("an array in a pickle must have one or two dimensions, got others.")
    buffer = raw.encode("latin1") if isinstance(raw, str) else raw
    expected = dtype.itemsize
    for length in shape:
        expected *= length
    if not isinstance(buffer, bytes) or len(buffer) != expected:
        raise DataFormatError(
            f"an array in a pickle must hold the {expected:,} bytes of its shape {shape}, got "
            f"{len(buffer) if isinstance(buffer, bytes) else 'no'} bytes."
        )
    flat = np.frombuffer(buffer, dtype=dtype)
    return flat.reshape(shape, order="F" if fortran is True else "C")


def _dtype(part: Any) -> np.dtype[Any]:
    if not isinstance(part, Part) or part.role != "dtype" or part.arguments[:1] == ():
        raise DataFormatError("an array in a pickle must have a dtype, got none.")
    code = part.arguments[0]
    if code not in _DTYPES:
        raise DataFormatError(
            f"an array in a pickle must hold numbers ({', '.join(_DTYPES)}), got {quote(code)}."
        )
    order = part.state[1] if isinstance(part.state, tuple) and len(part.state) > 1 else "="
    dtype: np.dtype[Any] = np.dtype((order if order in ("<", ">") else "=") + code)
    return dtype


def build_csr(part: Part) -> sp.csr_matrix:
    """Build a CSR matrix from its pickled state."""
    state = part.state
    if not isinstance(state, dict):
        raise DataFormatError("a matrix in a pickle must have its arrays, got none.")
    parts = [state.get(key) for key in ("data", "indices", "indptr")]
    shape = state.get("_shape")
    if not all(isinstance(array, Part) for array in parts) or not _is_shape(shape):
        raise DataFormatError("a matrix in a pickle must have data, indices, indptr and shape.")
    return csr_from_arrays(*(build_array(array) for array in parts), shape)


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, tuple) and len(shape) == 2 and is_whole(shape) and min(shape) >= 0


# Pickles

_ARRAY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")
_CSR_MODULES = ("scipy.sparse.csr", "scipy.sparse._csr")
_ALLOWED = {
    **{(module, "_reconstruct"): "new_array" for module in _ARRAY_MODULES},
    **{(module, "csr_matrix"): "csr" for module in _CSR_MODULES},
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("collections", "defaultdict"): "dict",
    ("__builtin__", "list"): "list",
    ("builtins", "list"): "list",
    ("_codecs", "encode"): "bytes",
    ("__builtin__", "bytes"): "bytes",  # protocol 2 writes empty bytes as a call of bytes()
}
_IGNORED = ("PROTO", "FRAME")
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
_LITERALS = frozenset(
    {
        "BININT",
        "BININT1",
        "BININT2",
        "INT",
        "LONG",
        "LONG1",
        "BINFLOAT",
        "STRING",
        "SHORT_BINSTRING",
        "BINSTRING",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "SHORT_BINBYTES",
        "BINBYTES",
        "BINBYTES8",
    }
)
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Mark:
    """The mark on the stack."""


def read_pickle(raw: bytes) -> Any:
    """Return the array, matrix or lists of a pickle without running code; refuse all else."""
    machine = _Machine()
    with ignore_warnings():
        for opcode, argument, _ in pickletools.genops(raw):
            if opcode.name == "STOP":
                return _finish(machine.only_value())
            machine.step(opcode.name, argument)
    raise DataFormatError("a pickle must end with its stop code, got none.")


class _Machine:
    """Stack and memo for the opcodes that data files need."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def step(self, code: str, argument: Any) -> None:
        if code in _LITERALS:
            self.stack.append(argument)
        elif code in _CONSTANTS:
            self.stack.append(_CONSTANTS[code]())
        elif code == "MARK":
            self.stack.append(_Mark)
        elif code in _TUPLES:
            self.stack.append(tuple(self.take(_TUPLES[code])))
        elif code == "TUPLE":
            self.stack.append(tuple(self.above_mark()))
        elif code in ("GLOBAL", "STACK_GLOBAL"):
            self.stack.append(_admit(self.global_name(code, argument)))
        elif code in ("REDUCE", "NEWOBJ"):
            function, arguments = self.take(2)
            self.stack.append(_apply(function, arguments))
        elif code == "BUILD":
            self.build()
        elif not self.remember(code, argument) and not self.fill(code) and code not in _IGNORED:
            raise DataFormatError(
                f"a pickle must hold arrays and plain containers only, got byte code {code}. "
                "Nothing was run."
            )

    def remember(self, code: str, argument: Any) -> bool:
        """Run an opcode of the memo, a dict, so that a huge index takes no memory."""
        if code in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = self.stack[-1]
        elif code == "MEMOIZE":
            self.memo[len(self.memo)] = self.stack[-1]
        elif code in ("GET", "BINGET", "LONG_BINGET"):
            self.stack.append(self.memo[argument])
        else:
            return False
        return True

    def fill(self, code: str) -> bool:
        """Run an opcode that adds to a list or dict."""
        if code == "APPEND":
            (value,) = self.take(1)
            _container(self.stack[-1], list).append(value)
        elif code == "APPENDS":
            values = self.above_mark()
            _container(self.stack[-1], list).extend(values)
        elif code in ("SETITEM", "SETITEMS"):
            values = self.take(2) if code == "SETITEM" else self.above_mark()
            if len(values) % 2:
                raise DataFormatError("a pickle must pair keys with values, got one without.")
            _container(self.stack[-1], dict).update(zip(values[::2], values[1::2]))
        else:
            return False
        return True

    def take(self, count: int) -> list[Any]:
        if len(self.stack) < count:
            raise DataFormatError("a pickle must not empty its stack, got too few values.")
        taken = self.stack[-count:]
        if any(value is _Mark for value in taken):
            raise DataFormatError("a pickle must close what it opens, got a marker as a value.")
        del self.stack[-count:]
        return taken

    def above_mark(self) -> list[Any]:
        for position in range(len(self.stack) - 1, -1, -1):
            if self.stack[position] is _Mark:
                values = self.stack[position + 1 :]
                del self.stack[position:]
                return values
        raise DataFormatError("a pickle must open what it closes, got no marker.")

    def global_name(self, code: str, argument: Any) -> tuple[Any, Any]:
        if code == "STACK_GLOBAL":
            module, name = self.take(2)
            return module, name
        module, _, name = str(argument).partition(" ")
        return module, name

    def build(self) -> None:
        (state,) = self.take(1)
        part = self.stack[-1]
        if not isinstance(part, Part):
            raise DataFormatError("a pickle must give state to arrays only, got another object.")
        part.state = state

    def only_value(self) -> Any:
        if len(self.stack) != 1 or self.stack[0] is _Mark:
            raise DataFormatError("a pickle must hold one object, got another number of them.")
        return self.stack[0]


def _admit(name: tuple[Any, Any]) -> Name:
    if not all(isinstance(part, str) for part in name) or name not in _ALLOWED:
        raise DataFormatError(
            f"a pickle may name NumPy and SciPy arrays only, got {quote('.'.join(map(str, name)))}."
            " Nothing was run; do not trust this file."
        )
    return Name(_ALLOWED[name])


def _container(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise DataFormatError(f"a pickle must fill a {kind.__name__}, got another object.")
    return value


def _apply(function: Any, arguments: Any) -> Any:
    role = function.role if isinstance(function, Name) else None
    if role is None or type(arguments) is not tuple:
        raise DataFormatError("a pickle may call admitted names only, got another object.")
    if role == "dict":
        return {}
    if role == "list" and not arguments:
        return []
    if role == "bytes" and not arguments:
        return b""
    if role == "bytes" and len(arguments) == 2 and arguments[1] == "latin1":
        return str(arguments[0]).encode("latin1")
    if role in ("new_array", "dtype", "csr"):
        return Part(role, arguments)
    raise DataFormatError(f"a pickle may not call {role} with these arguments.")


def _finish(value: Any) -> Any:
    """Build the array or matrix, or check a list of integers or a dict of such lists.

    A list that occurs twice is refused: with such references a small file could expand to more
    than the memory.
    """
    if isinstance(value, Part):
        return build_csr(value) if value.role == "csr" else build_array(value)
    lists = list(value.values()) if isinstance(value, dict) else [value]
    if not all(type(item) is list and is_whole(item) for item in lists):
        raise DataFormatError("a pickle must hold an array, a matrix, or lists of whole numbers.")
    if len({id(item) for item in lists}) != len(lists):
        raise DataFormatError("a pickle must hold each list once, got one list named twice.")
    return value


# Data sets

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph")
N_VAL = 500

# The files have class numbers only; docs/data.md says how the names were found.
CLASS_NAMES = {
    "cora": (
        "Theory",
        "Reinforcement_Learning",
        "Genetic_Algorithms",
        "Neural_Networks",
        "Probabilistic_Methods",
        "Case_Based",
        "Rule_Learning",
    ),
    "citeseer": ("AI", "ML", "IR", "DB", "Agents", "HCI"),
    "pubmed": (
        "Diabetes_Mellitus_Experimental",
        "Diabetes_Mellitus_Type_2",
        "Diabetes_Mellitus_Type_1",
    ),
}


def find_planetoid_name(folder: Path) -> str:
    """Return the name of the only data set in a folder."""
    names = sorted(path.name[4:-5] for path in folder.glob("ind.*.allx"))
    if len(names) != 1:
        raise InputError(
            f"{folder} must hold one Planetoid set for this, got "
            f"{', '.join(names[:5]) if names else 'no ind.NAME.allx file'}. Give its name."
        )
    return names[0]


def read_planetoid(folder: str | Path, name: str | None = None) -> NodeData:
    """Read the ``ind.NAME.*`` files of a folder, with their public split.

    ``name`` is optional if the folder holds one data set. Nodes without a row in the files (15 in
    Citeseer) get empty features and label -1. The first rows are the training nodes, the next 500
    the validation nodes, and ``test.index`` lists the test nodes.
    """
    folder = Path(folder)
    name = find_planetoid_name(folder) if name is None else name
    parts = {part: _read_part(folder / f"ind.{name}.{part}") for part in PARTS}
    index_path = folder / f"ind.{name}.test.index"
    with wrap_parse_errors(index_path, "Planetoid"):
        test = _test_rows(read_text(index_path), index_path)
        return _assemble(name, parts, test)


def _read_part(path: Path) -> Any:
    check_file(path, max_bytes=2**31)
    with wrap_parse_errors(path, "Planetoid"):
        try:
            return read_pickle(path.read_bytes())
        except DataFormatError as error:
            raise DataFormatError(f"{path.name}: {error}") from error


def _test_rows(text: str, path: Path) -> np.ndarray:
    words = text.split()
    if not words or not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        raise DataFormatError(f"{path.name} must list node numbers, one a line.")
    rows = np.array(words, dtype=np.int64)
    if np.unique(rows).size != rows.size:
        raise DataFormatError(f"{path.name} must list each node once, got repeated numbers.")
    return rows


def _assemble(name: str, parts: dict[str, Any], test: np.ndarray) -> NodeData:
    known_x, known_y = _matrix(parts, "allx"), _one_hot(parts, "ally")
    test_x, test_y = _matrix(parts, "tx"), _one_hot(parts, "ty")
    train_y = _one_hot(parts, "y")
    n_known = known_x.shape[0]
    n_nodes = int(test.max()) + 1
    _check_sizes((known_x, known_y), (test_x, test_y), test)
    rows = np.concatenate([np.arange(n_known), test])
    features = _place_rows(sp.vstack([known_x, test_x], format="csr"), rows, n_nodes)
    labels = np.full(n_nodes, -1, dtype=np.int64)
    labels[rows] = _classes(np.concatenate([known_y, test_y]))
    n_train = train_y.shape[0]
    if n_train > n_known:
        raise DataFormatError(f"y must have at most {n_known} rows, got {n_train}.")
    n_val = min(N_VAL, n_known - n_train)
    splits = {
        "train": np.arange(n_train),
        "val": np.arange(n_train, n_train + n_val),
        "test": np.sort(test),
    }
    return NodeData(
        features=features,
        labels=labels,
        graph=_graph(parts["graph"], n_nodes),
        class_names=CLASS_NAMES.get(name, tuple(str(c) for c in range(known_y.shape[1]))),
        splits={key: nodes[labels[nodes] >= 0] for key, nodes in splits.items()},
        name=name,
        provenance={"format": "Planetoid ind.* files"},
    )


def _check_sizes(
    known: tuple[sp.csr_matrix, np.ndarray],
    unseen: tuple[sp.csr_matrix, np.ndarray],
    test: np.ndarray,
) -> None:
    """Check that the sizes of the parts agree, before memory for the whole is used."""
    (known_x, known_y), (test_x, test_y) = known, unseen
    n_known = known_x.shape[0]
    agree = {
        "allx and ally must have as many rows": (n_known, known_y.shape[0]),
        "tx and test.index must have as many rows": (test_x.shape[0], test.size),
        "ty and test.index must have as many rows": (test_y.shape[0], test.size),
        "allx and tx must have as many columns": (known_x.shape[1], test_x.shape[1]),
        "ally and ty must have as many columns": (known_y.shape[1], test_y.shape[1]),
    }
    for rule, (left, right) in agree.items():
        if left != right:
            raise DataFormatError(f"{rule}, got {left} and {right}.")
    if test.min() < n_known or test.max() >= n_known + 10 * test.size + 1000:
        raise DataFormatError(
            f"test.index must number nodes from {n_known} on without large gaps, got "
            f"{test.min()} to {test.max()} for {test.size} nodes."
        )


def _place_rows(stacked: sp.csr_matrix, rows: np.ndarray, n_nodes: int) -> sp.csr_matrix:
    """Move row k of the matrix to row ``rows[k]``; the other rows are empty."""
    coo = stacked.tocoo()
    return sp.csr_matrix((coo.data, (rows[coo.row], coo.col)), shape=(n_nodes, stacked.shape[1]))


def _matrix(parts: dict[str, Any], part: str) -> sp.csr_matrix:
    if not sp.issparse(parts[part]):
        raise DataFormatError(f"{part} must hold a sparse matrix, got another object.")
    return parts[part]


def _one_hot(parts: dict[str, Any], part: str) -> np.ndarray:
    value = parts[part]
    if not isinstance(value, np.ndarray) or value.ndim != 2 or value.dtype.kind not in "iuf":
        raise DataFormatError(f"{part} must hold a table of 0 and 1, got another object.")
    if value.size and (not np.isin(value, (0, 1)).all() or value.sum(axis=1).max() > 1):
        raise DataFormatError(f"{part} must hold at most one 1 in each row, got other values.")
    return value


def _classes(one_hot: np.ndarray) -> np.ndarray:
    """Return the column of the 1 in each row; -1 for a row without a 1."""
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1).astype(np.int64)


def _graph(neighbours: Any, n_nodes: int) -> sp.csr_matrix:
    if not isinstance(neighbours, dict):
        raise DataFormatError("graph must hold a list of neighbours for each node.")
    for node, others in neighbours.items():
        if type(node) is not int or not isinstance(others, list):
            raise DataFormatError(f"graph must map node numbers to lists, got {quote(node)}.")
        if not all(type(other) is int and 0 <= other < n_nodes for other in (node, *others)):
            raise DataFormatError(
                f"graph must name nodes in [0, {n_nodes}), got others at node {quote(node)}."
            )
    lengths = [len(others) for others in neighbours.values()]
    source = np.repeat(np.array(list(neighbours), dtype=np.int64), lengths)
    target = np.array([o for others in neighbours.values() for o in others], dtype=np.int64)
    return symmetric_from_pairs(source, target, n_nodes)
