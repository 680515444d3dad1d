"""The citation networks as Planetoid published them: eight ``ind.NAME.*`` files."""

from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.data.arrays import symmetric_from_pairs
from glnn.data.files import check_file, parsing, read_text, shown
from glnn.data.node_data import NodeData
from glnn.data.pickles import read_pickle
from glnn.exceptions import DataFormatError, InputError

PARTS = ("x", "tx", "allx", "y", "ty", "ally", "graph")
N_VAL = 500

# The files number the classes and name none; see docs/data.md for how the names were found.
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
    """Return the one data set whose files lie in the folder."""
    names = sorted(path.name[4:-5] for path in folder.glob("ind.*.allx"))
    if len(names) != 1:
        raise InputError(
            f"{folder} must hold one Planetoid set for this, got "
            f"{', '.join(names[:5]) if names else 'no ind.NAME.allx file'}. Give its name."
        )
    return names[0]


def read_planetoid(folder: str | Path, name: str | None = None) -> NodeData:
    """Read the ``ind.NAME.*`` files of a folder, with the public split they define.

    Nodes without a row in the files (15 in Citeseer) get empty features and label -1. The first
    rows are the training nodes, the next 500 the validation nodes, the listed ones the test nodes.

    Parameters
    ----------
    folder
        Where the eight files lie.
    name
        The part between ``ind.`` and the suffix; may be left out if the folder holds one set.

    Returns
    -------
    NodeData
        Features as published, labels, undirected graph without loops, public split.
    """
    folder = Path(folder)
    name = find_planetoid_name(folder) if name is None else name
    parts = {part: _read_part(folder / f"ind.{name}.{part}") for part in PARTS}
    index_path = folder / f"ind.{name}.test.index"
    with parsing(index_path, "Planetoid"):
        test = _test_rows(read_text(index_path), index_path)
        return _assemble(name, parts, test)


def _read_part(path: Path) -> Any:
    check_file(path, max_bytes=2**31)
    with parsing(path, "Planetoid"):
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
    _check_fit((known_x, known_y), (test_x, test_y), test)
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


def _check_fit(
    known: tuple[sp.csr_matrix, np.ndarray],
    unseen: tuple[sp.csr_matrix, np.ndarray],
    test: np.ndarray,
) -> None:
    """Refuse sizes that do not agree, before anything of the size of the whole is made."""
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
    """Put row k of the matrix at place ``rows[k]``; places without a row stay empty."""
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
    """Column of the 1 in each row; -1 where a row has none."""
    return np.where(one_hot.any(axis=1), one_hot.argmax(axis=1), -1).astype(np.int64)


def _graph(neighbours: Any, n_nodes: int) -> sp.csr_matrix:
    if not isinstance(neighbours, dict):
        raise DataFormatError("graph must hold a list of neighbours for each node.")
    for node, others in neighbours.items():
        if type(node) is not int or not isinstance(others, list):
            raise DataFormatError(f"graph must map node numbers to lists, got {shown(node)}.")
        if not all(type(other) is int and 0 <= other < n_nodes for other in (node, *others)):
            raise DataFormatError(
                f"graph must name nodes in [0, {n_nodes}), got others at node {shown(node)}."
            )
    lengths = [len(others) for others in neighbours.values()]
    source = np.repeat(np.array(list(neighbours), dtype=np.int64), lengths)
    target = np.array([o for others in neighbours.values() for o in others], dtype=np.int64)
    return symmetric_from_pairs(source, target, n_nodes)
