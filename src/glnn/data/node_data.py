"""The record every part of glnn works on: features, labels, graph, and where they came from."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._display import Shown
from glnn._validation import check_array, check_features, check_indices
from glnn.data.arrays import (
    canonical_csr,
    canonical_ids,
    check_adjacency,
    check_names,
    check_text,
    read_only,
    read_only_csr,
    symmetric_from_pairs,
)
from glnn.data.files import shown
from glnn.exceptions import InputError

SPLIT_KEYS = ("train", "val", "test")


@dataclass(frozen=True, eq=False, repr=False)
class NodeData(Shown):
    """Nodes with features, labels and, where there is one, a graph; checked once, then frozen.

    Parameters
    ----------
    features
        CSR, float32, nodes x features, as published: nothing is scaled.
    labels
        Class number of each node, int64; -1 where it is unknown.
    graph
        Symmetric, non-negative CSR with an empty diagonal, or ``None``.
    class_names
        One name for each class, in the order of the class numbers.
    splits
        The published split, if there is one: node numbers under ``train``, ``val``, ``test``.
    ids
        The nodes' names in the file they came from: whole numbers or text. Text that only holds
        whole numbers becomes whole numbers. ``None`` numbers the nodes from 0.
    name
        A short name for messages and results.
    provenance
        Where the data came from and what was done to it, as pairs of text.
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
        features = canonical_csr("features", check_features("features", self.features))
        n_nodes, n_features = features.shape
        names = check_names("class_names", self.class_names)
        check_text("name", self.name)
        self._set("features", features)
        self._set("class_names", names)
        self._set("labels", _check_labels(self.labels, n_nodes, len(names)))
        if self.graph is not None:
            self._set("graph", read_only_csr(check_adjacency(self.graph, n_nodes)))
        if self.ids is not None:
            self._set("ids", canonical_ids(self.ids, n_nodes))
        if self.feature_names is not None:
            self._set("feature_names", check_names("feature_names", self.feature_names, n_features))
        self._set("splits", self._check_splits())
        self._set(
            "provenance", MappingProxyType({str(k): str(v) for k, v in self.provenance.items()})
        )

    def _set(self, field_name: str, value: Any) -> None:
        object.__setattr__(self, field_name, value)

    def _check_splits(self) -> Mapping[str, np.ndarray]:
        """Node numbers under known keys, all labelled, no node in two of them."""
        checked: dict[str, np.ndarray] = {}
        for key, indices in self.splits.items():
            if key not in SPLIT_KEYS:
                raise InputError(
                    f"splits must have the keys {', '.join(SPLIT_KEYS)}; got {shown(key)}."
                )
            nodes = np.sort(check_indices(f"splits[{key!r}]", indices, self.n_nodes))
            checked[key] = read_only(nodes)
        nodes = np.concatenate([np.empty(0, np.int64), *checked.values()])
        if np.unique(nodes).size != nodes.size:
            raise InputError("splits must be disjoint, got nodes in more than one of them.")
        if (self.labels[nodes] < 0).any():
            bad = int(nodes[self.labels[nodes] < 0][0])
            raise InputError(f"splits must hold labelled nodes only, got node {bad} without one.")
        return MappingProxyType(checked)

    @classmethod
    def from_arrays(
        cls,
        features: Any,
        labels: Any,
        *,
        edges: Any = None,
        **fields: Any,
    ) -> "NodeData":
        """Build a record from arrays.

        Class names default to the class numbers.

        Parameters
        ----------
        features, labels
            As in the record.
        edges
            ``None``, a ``2 x E`` or ``E x 2`` array of node numbers (a ``2 x 2`` array has one edge
            a row, or is a matrix where there are two nodes: the rule of
            :func:`glnn.graph.convert.edge_ends`, which ``fit`` follows, too), or a symmetric
            ``n x n`` matrix, sparse or dense.
        **fields
            Other fields of the record by name.
        """
        matrix = canonical_csr("features", check_features("features", features))
        numbers = _whole_numbers("labels", labels)
        if "class_names" not in fields:
            fields["class_names"] = _numbered_classes(numbers)
        return cls(matrix, numbers, _graph_from(edges, matrix.shape[0]), **fields)

    def _facts(self) -> dict[str, str]:
        return {
            "name": self.name,
            "nodes": f"{self.n_nodes:,}",
            "features": f"{self.n_features:,}",
            "classes": f"{self.n_classes:,}",
            "labels": f"{len(self.labelled):,}",
            "edges": "none" if self.graph is None else f"{self.n_edges:,}",
        }

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
        """Number of classes, those without a labelled node included."""
        return len(self.class_names)

    @property
    def n_edges(self) -> int:
        """Number of undirected edges; 0 without a graph."""
        return 0 if self.graph is None else int(self.graph.nnz) // 2

    @property
    def labelled(self) -> np.ndarray:
        """Numbers of the nodes whose class is known."""
        return np.flatnonzero(self.labels >= 0)

    @property
    def homophily(self) -> float:
        """Share of edges that join two nodes of one class, of those with both labels known."""
        if self.graph is None:
            return float("nan")
        pairs = sp.triu(self.graph, k=1, format="coo")
        source, target = self.labels[pairs.row], self.labels[pairs.col]
        known = (source >= 0) & (target >= 0)
        return float((source == target)[known].mean()) if known.any() else float("nan")

    @property
    def node_ids(self) -> np.ndarray:
        """The nodes' ids, or their numbers where they have none."""
        return np.arange(self.n_nodes) if self.ids is None else self.ids

    @property
    def column_names(self) -> tuple[str, ...]:
        """The features' names, or ``x0, x1, ...`` where they have none."""
        if self.feature_names is not None:
            return self.feature_names
        return tuple(f"x{j}" for j in range(self.n_features))

    def replace(self, **changes: Any) -> "NodeData":
        """Return a copy with some fields changed; the copy checks itself again."""
        return dataclasses.replace(self, **changes)

    def __getstate__(self) -> dict[str, Any]:
        """Return plain fields, so that records can be copied and sent to other processes."""
        state = dict(vars(self))
        return {**state, "splits": dict(self.splits), "provenance": dict(self.provenance)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in state.items():
            self._set(name, value)
        self.__post_init__()

    def equals(self, other: "NodeData") -> bool:
        """Whether both hold the same nodes, labels, graph and split; where from does not count."""
        return (
            self.class_names == other.class_names
            and self.column_names == other.column_names
            and np.array_equal(self.node_ids, other.node_ids)
            and np.array_equal(self.labels, other.labels)
            and _same_matrix(self.features, other.features)
            and _same_matrix(self.graph, other.graph)
            and self.splits.keys() == other.splits.keys()
            and all(np.array_equal(v, other.splits[k]) for k, v in self.splits.items())
        )


def _numbered_classes(labels: np.ndarray) -> tuple[str, ...]:
    n_classes = int(labels.max(initial=-1)) + 1
    if n_classes > max(labels.size, 1):
        raise InputError(
            f"labels must number the classes from 0 without gaps, got {n_classes - 1} for "
            f"{labels.size} nodes. Number the classes 0, 1, 2, ..., or give class_names."
        )
    return tuple(str(c) for c in range(n_classes))


def _check_labels(labels: Any, n_nodes: int, n_classes: int) -> np.ndarray:
    array = _whole_numbers("labels", labels)
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
    return read_only(array)


def _whole_numbers(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{name} must be a list of whole numbers, got dtype {array.dtype} and shape "
            f"{array.shape}. Encode text labels first, for instance with LabelEncoder."
        )
    return array.astype(np.int64)


def _graph_from(edges: Any, n_nodes: int) -> sp.csr_matrix | None:
    if edges is None:
        return None
    if sp.issparse(edges):
        return sp.csr_matrix(edges)
    array = check_array("edges", edges)
    if array.size == 0:
        return sp.csr_matrix((n_nodes, n_nodes), dtype=np.float32)
    if array.shape == (n_nodes, n_nodes) and array.dtype.kind in "fiub":
        return sp.csr_matrix(array)
    if array.ndim != 2 or 2 not in array.shape or array.dtype.kind not in "iu":
        raise InputError(
            f"edges must be a 2 x E or E x 2 array of node numbers or an n x n matrix, got dtype "
            f"{array.dtype} and shape {array.shape}. Number the nodes from 0."
        )
    from glnn.graph.convert import edge_ends  # torch only when needed

    source, target = edge_ends("edges", array)
    return symmetric_from_pairs(source, target, n_nodes)


def _same_matrix(left: sp.csr_matrix | None, right: sp.csr_matrix | None) -> bool:
    """Both absent, or equal entry for entry; canonical CSR makes this a comparison of arrays."""
    if left is None or right is None:
        return left is right
    return (
        left.shape == right.shape
        and np.array_equal(left.indptr, right.indptr)
        and np.array_equal(left.indices, right.indices)
        and np.array_equal(left.data, right.data)
    )
