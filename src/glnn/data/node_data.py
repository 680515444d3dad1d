"""NodeData, the record of features, labels and graph, and checks of the arrays it holds."""

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_array, check_choice, check_features, check_indices, is_symmetric
from glnn.data.files import one_line, quote
from glnn.exceptions import DataFormatError, InputError

# Arrays in canonical form

MAX_COLUMNS = 100_000_000  # a file that declares more features is taken for damaged or hostile


def freeze_array(array: np.ndarray) -> np.ndarray:
    """Return the array read-only; a writable array is copied first."""
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def empty_features(n_nodes: int, n_features: int) -> sp.csr_matrix:
    """Return a matrix without entries, as a placeholder for features that are read later."""
    return sp.csr_matrix((n_nodes, n_features), dtype=np.float32)


def canonicalize_csr(name: str, matrix: Any) -> sp.csr_matrix:
    """Return a read-only float32 CSR copy with sorted columns, no duplicates, no stored zeros."""
    if matrix.shape[1] > MAX_COLUMNS:
        raise InputError(
            f"{name} must have at most {MAX_COLUMNS:,} columns, got {matrix.shape[1]:,}."
        )
    canonical = sp.csr_matrix(matrix, copy=True)
    data = to_float32(canonical.data)
    if not np.isfinite(data).all():
        raise InputError(
            f"{name} must be finite and within float32 (below 3.4e38), got "
            f"{quote(canonical.data[~np.isfinite(data)][0])}. Rescale or impute first."
        )
    canonical.data = data
    canonical.sum_duplicates()
    canonical.eliminate_zeros()
    for array in (canonical.data, canonical.indices, canonical.indptr):
        array.flags.writeable = False
    return canonical


def to_float32(values: np.ndarray) -> np.ndarray:
    """Cast to float32; values beyond its range become infinite."""
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def csr_from_arrays(
    data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]
) -> sp.csr_matrix:
    """Build a CSR matrix from its three arrays, after checking every index against the shape."""
    try:
        parts = data, indices.astype(np.int64), indptr.astype(np.int64)
        matrix = sp.csr_matrix(parts, shape=shape)
        matrix.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise DataFormatError(
            f"a CSR matrix must have row starts and columns that fit its shape {tuple(shape)}, "
            f"got: {one_line(error)}."
        ) from None
    return matrix


def check_adjacency(graph: Any, n_nodes: int) -> sp.csr_matrix:
    """Check that a graph is symmetric, non-negative and without loops; return canonical CSR."""
    if not sp.issparse(graph) or graph.shape != (n_nodes, n_nodes):
        shape = getattr(graph, "shape", type(graph).__name__)
        raise InputError(
            f"graph must be a sparse matrix of shape ({n_nodes}, {n_nodes}), got {shape}."
        )
    matrix = canonicalize_csr("graph", graph)
    if matrix.data.size and matrix.data.min() < 0:
        raise InputError(
            f"graph must have no negative weight, got {matrix.data.min():g}. "
            "Take absolute values or drop those edges."
        )
    if matrix.diagonal().any():
        raise InputError(
            "graph must have an empty diagonal, got self loops. Remove them with graph.setdiag(0)."
        )
    if not is_symmetric(matrix):
        raise InputError(
            "graph must be symmetric, got one-way edges. "
            "Make it undirected with graph.maximum(graph.T)."
        )
    return matrix


def symmetric_from_pairs(
    source: np.ndarray, target: np.ndarray, n_nodes: int, weight: np.ndarray | None = None
) -> sp.csr_matrix:
    """Return the undirected graph of a list of node pairs.

    Self loops are dropped. A pair that occurs more than once, in either direction, keeps its
    largest weight. Without weights every edge has weight 1.
    """
    source, target = source.astype(np.int64), target.astype(np.int64)
    ends = np.concatenate([source, target])
    if ends.size and (ends.min() < 0 or ends.max() >= n_nodes):
        raise InputError(
            f"edges must hold node numbers in [0, {n_nodes}), got {ends.min()} to {ends.max()}. "
            "Number the nodes from 0, or give features for every node."
        )
    codes = np.minimum(source, target) * n_nodes + np.maximum(source, target)
    links = source != target
    if weight is None:
        codes = unique_codes(codes[links])
        values = np.ones(codes.size, dtype=np.float32)
    else:
        links &= weight != 0
        codes, weight = codes[links], weight[links]
        order = np.lexsort((-weight, codes))
        codes, first = np.unique(codes[order], return_index=True)  # the largest weight of each
        values = weight[order][first]
    low, high = codes // n_nodes, codes % n_nodes
    rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
    entries = np.concatenate([values, values])
    matrix = sp.csr_matrix((entries, (rows, columns)), shape=(n_nodes, n_nodes))
    return canonicalize_csr("edges", matrix)


def check_weights(weights: Any) -> np.ndarray:
    """Check that edge weights are finite and at least 0; return them as float64."""
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("weights of edges must be numbers, got others.") from None
    if not (np.isfinite(array) & (array >= 0)).all():
        raise InputError("weights of edges must be finite and at least 0, got others.")
    return array


def unique_codes(codes: np.ndarray) -> np.ndarray:
    """Return the sorted unique values of non-negative integers; ``np.unique`` is far slower."""
    ordered = np.sort(codes)
    return ordered[np.diff(ordered, prepend=-1) > 0]


def extract_links(graph: Any) -> sp.coo_matrix:
    """Return the entries above the diagonal, row by row, without stored zeros."""
    upper = sp.triu(sp.csr_matrix(graph), k=1, format="csr")
    upper.sum_duplicates()
    upper.eliminate_zeros()
    return upper.tocoo()


def check_text(name: str, value: str) -> str:
    """Check that a text is valid Unicode without NUL, so that every format can hold it."""
    if re.search("[\0\ud800-\udfff]", value):
        raise InputError(f"{name} must be Unicode text without NUL characters, got {quote(value)}.")
    return value


def check_names(
    name: str, names: Iterable[object], length: int | None = None, *, allow_blank: bool = False
) -> tuple[str, ...]:
    """Check that names are distinct and not blank, and that there are ``length`` of them."""
    checked = tuple(check_text(name, str(value)) for value in names)
    if length is not None and len(checked) != length:
        raise InputError(f"{name} must hold {length} names, got {len(checked)}.")
    if not all(value if allow_blank else value.strip() for value in checked):
        raise InputError(f"{name} must not be blank, got blank text.")
    if len(set(checked)) != len(checked):
        twice = Counter(checked).most_common(1)[0][0]
        raise InputError(f"{name} must be distinct, got {quote(twice)} more than once.")
    return checked


def canonicalize_ids(ids: Any, n_nodes: int) -> np.ndarray:
    """Check that ids are distinct; return int64 if all are integers as ``str`` writes them."""
    is_simple = isinstance(ids, np.ndarray) and ids.dtype == np.int64 and ids.ndim == 1
    if is_simple and np.unique(ids).size == len(ids) == n_nodes:  # quick for many nodes
        return freeze_array(ids)
    values = ids.ravel().tolist() if isinstance(ids, np.ndarray) else ids
    return freeze_array(ids_from_text(check_names("ids", values, n_nodes, allow_blank=True)))


def ids_from_text(texts: Sequence[str]) -> np.ndarray:
    """Return int64 ids if every text is an integer as ``str`` writes it, else the texts."""
    if texts and all(is_whole_number(text) for text in texts):
        return np.array([int(text) for text in texts], dtype=np.int64)
    return np.array(list(texts), dtype=np.str_)


def is_whole_number(text: str) -> bool:
    """Whether the text is an int64 as ``str`` writes it."""
    is_integer = re.fullmatch("0|-?[1-9][0-9]{0,18}", text) is not None
    return is_integer and -(2**63) <= int(text) < 2**63


# The record

SPLIT_KEYS = ("train", "val", "test")


@dataclass(frozen=True, eq=False, repr=False)
class NodeData:
    """Nodes with features, labels and optionally a graph; checked on creation, then immutable.

    Parameters
    ----------
    features
        CSR, float32, nodes x features. Nothing is scaled.
    labels
        Class number of each node, int64; -1 if unknown.
    graph
        Symmetric, non-negative CSR with an empty diagonal, or ``None``.
    class_names
        One name for each class, in the order of the class numbers.
    splits
        The published split, if there is one: node numbers under ``train``, ``val``, ``test``.
    ids
        Names of the nodes, integers or text. If all texts are integers, they become integers.
        ``None`` numbers the nodes from 0.
    name
        A short name for messages and results.
    provenance
        Source of the data and how they were processed, as pairs of text.
    feature_names
        One name for each feature, or ``None``.

    Examples
    --------
    >>> data = NodeData.from_arrays([[1.0], [2.0], [4.0]], [0, 1, -1], edges=[[0, 1]])
    >>> data.n_nodes, data.n_edges, data.n_classes, data.labelled.tolist()
    (3, 1, 2, [0, 1])
    """

    features: sp.csr_matrix
    labels: np.ndarray
    graph: sp.csr_matrix | None = None
    class_names: tuple[str, ...] = ()
    splits: Mapping[str, np.ndarray] = field(default_factory=dict)
    ids: np.ndarray | None = None
    name: str = "data"
    provenance: Mapping[str, str] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        features = canonicalize_csr("features", check_features("features", self.features))
        n_nodes, n_features = features.shape
        names = check_names("class_names", self.class_names)
        check_text("name", self.name)
        self._set("features", features)
        self._set("class_names", names)
        self._set("labels", _check_labels(self.labels, n_nodes, len(names)))
        if self.graph is not None:
            self._set("graph", check_adjacency(self.graph, n_nodes))
        if self.ids is not None:
            self._set("ids", canonicalize_ids(self.ids, n_nodes))
        if self.feature_names is not None:
            self._set("feature_names", check_names("feature_names", self.feature_names, n_features))
        self._set("splits", self._check_splits())
        pairs = ([check_text("provenance", str(v)) for v in kv] for kv in self.provenance.items())
        self._set("provenance", MappingProxyType(dict(pairs)))

    def _set(self, field_name: str, value: Any) -> None:
        object.__setattr__(self, field_name, value)

    def _check_splits(self) -> Mapping[str, np.ndarray]:
        """Check that the parts of the split are disjoint and hold labelled nodes only."""
        checked = check_parts(self.splits, self.n_nodes)
        for nodes in checked.values():
            bad = nodes[self.labels[nodes] < 0]
            if bad.size:
                raise InputError(
                    f"splits must hold labelled nodes only, got node {bad[0]} without one."
                )
        return MappingProxyType(checked)

    @classmethod
    def from_arrays(
        cls, features: Any, labels: Any, *, edges: Any = None, **fields: Any
    ) -> "NodeData":
        """Build a record from arrays; ``fields`` are the other fields of the record by name.

        ``edges`` are ``None``, a ``2 x E`` or ``E x 2`` array of node numbers, or a symmetric
        ``n x n`` matrix, sparse or dense. A ``2 x 2`` array is an adjacency matrix if there are two
        nodes, else it has one edge per row, as in ``fit``. Classes are named by their numbers.
        """
        matrix = canonicalize_csr("features", check_features("features", features))
        numbers = _check_integers("labels", labels)
        if "class_names" not in fields:
            n_classes = int(numbers.max(initial=-1)) + 1
            if n_classes > max(numbers.size, 1):
                raise InputError(
                    f"labels must number the classes from 0 without gaps, got {n_classes - 1} for "
                    f"{numbers.size} nodes. Number the classes 0, 1, 2, ..., or give class_names."
                )
            fields["class_names"] = tuple(map(str, range(n_classes)))
        return cls(matrix, numbers, _graph_from_edges(edges, matrix.shape[0]), **fields)

    def __repr__(self) -> str:
        graph = "no graph" if self.graph is None else f"{self.n_edges:,} edges"
        columns = f"{self.n_features:,} features, {self.n_classes:,} classes"
        labels = f"{len(self.labelled):,} labels"
        return f"NodeData({self.name}: {self.n_nodes:,} nodes, {columns}, {labels}, {graph})"

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.features.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.features.shape[1])

    @property
    def n_classes(self) -> int:
        """Number of classes, including those without a labelled node."""
        return len(self.class_names)

    @property
    def n_edges(self) -> int:
        """Number of undirected edges; 0 without a graph."""
        return 0 if self.graph is None else int(self.graph.nnz) // 2

    @property
    def labelled(self) -> np.ndarray:
        """Numbers of the labelled nodes."""
        return np.flatnonzero(self.labels >= 0)

    @property
    def homophily(self) -> float:
        """Share of edges within one class, among the edges with both labels known."""
        pairs = sp.coo_matrix((0, 0)) if self.graph is None else self.graph.tocoo()
        source, target = self.labels[pairs.row], self.labels[pairs.col]
        known = (source >= 0) & (target >= 0)
        return float((source == target)[known].mean()) if known.any() else float("nan")

    @property
    def node_ids(self) -> np.ndarray:
        """Ids of the nodes, or their numbers if they have no ids."""
        return np.arange(self.n_nodes) if self.ids is None else self.ids

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the features, or ``x0, x1, ...`` if they have no names."""
        if self.feature_names is not None:
            return self.feature_names
        return tuple(f"x{j}" for j in range(self.n_features))

    def visible_labels(self, seen: np.ndarray) -> np.ndarray:
        """Return the labels of the nodes ``seen``, for ``y`` of a fit; all others are unlabelled.

        They are whole numbers (unlabelled: ``None``) if all class names are, otherwise the names of
        the classes (unlabelled: an empty text).
        """
        known = seen[self.labels[seen] >= 0]
        is_whole = all(map(is_whole_number, self.class_names))
        names = np.array([int(n) if is_whole else n for n in self.class_names], dtype=object)
        visible = np.full(self.n_nodes, None if is_whole else "", dtype=object)
        visible[known] = names[self.labels[known]]
        return visible if is_whole else visible.astype(np.str_)

    def replace(self, **changes: Any) -> "NodeData":
        """Return a copy with some fields changed; the copy is checked again."""
        return dataclasses.replace(self, **changes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the fields, as mapping proxies cannot be pickled; the copy is checked again."""
        fields = vars(self) | {"splits": dict(self.splits), "provenance": dict(self.provenance)}
        return partial(type(self), **fields), ()

    def equals(self, other: "NodeData") -> bool:
        """Whether nodes, features, labels, graph and split are the same; provenance may differ."""
        return (
            self.class_names == other.class_names
            and self.column_names == other.column_names
            and np.array_equal(self.node_ids, other.node_ids)
            and np.array_equal(self.labels, other.labels)
            and are_equal(self.features, other.features)
            and are_equal(self.graph, other.graph)
            and self.splits.keys() == other.splits.keys()
            and all(np.array_equal(v, other.splits[k]) for k, v in self.splits.items())
        )


def check_parts(parts: Mapping[str, Any], n_nodes: int) -> dict[str, np.ndarray]:
    """Check that the parts of a split are disjoint; return them sorted and read-only."""
    for key in parts:
        check_choice("the name of a part of a split", key, SPLIT_KEYS)
    checked = {
        key: freeze_array(np.sort(check_indices(f"splits[{key!r}]", nodes, n_nodes)))
        for key, nodes in parts.items()
    }
    nodes = np.concatenate([np.empty(0, np.int64), *checked.values()])
    if np.unique(nodes).size != nodes.size:
        raise InputError("splits must be disjoint, got nodes in more than one of them.")
    return checked


def _check_labels(labels: Any, n_nodes: int, n_classes: int) -> np.ndarray:
    array = _check_integers("labels", labels)
    if array.shape != (n_nodes,):
        raise InputError(
            f"labels must have one entry for each of the {n_nodes} nodes, got shape "
            f"{array.shape}. Give -1 where the class is unknown."
        )
    if array.size and (array.min() < -1 or array.max() >= n_classes):
        raise InputError(
            f"labels must be -1 (unknown) or a class number below {n_classes}, "
            f"got {array.min()} to {array.max()}. Give a class name for every class."
        )
    return freeze_array(array)


def _check_integers(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a list of whole numbers, got dtype {array.dtype} and shape "
            f"{array.shape}. Encode text labels first, for instance with LabelEncoder."
        )
    return array.astype(np.int64)


def _graph_from_edges(edges: Any, n_nodes: int) -> sp.csr_matrix | None:
    if edges is None:
        return None
    if sp.issparse(edges):
        return sp.csr_matrix(edges)
    array = check_array("edges", edges)
    if array.size == 0:
        return sp.csr_matrix((n_nodes, n_nodes), dtype=np.float32)
    from glnn.graph.convert import as_adjacency  # torch only when needed

    return as_adjacency(array, n_nodes)


def are_equal(left: sp.csr_matrix | None, right: sp.csr_matrix | None) -> bool:
    """Whether both are absent or equal; canonical CSR needs no more than equal arrays."""
    if left is None or right is None:
        return left is right
    parts = ((getattr(m, part) for m in (left, right)) for part in ("indptr", "indices", "data"))
    return left.shape == right.shape and all(np.array_equal(*pair) for pair in parts)
