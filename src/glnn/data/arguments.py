"""Arguments of ``fit``: frames, tensors, networkx graphs and PyG data become plain arrays.

Nodes of a graph are matched with the rows of the features by name.
"""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn._utils import did_you_mean, import_optional
from glnn.data.edges import (
    SOURCE_NAMES,
    TARGET_NAMES,
    describe_unknown,
    find_edge_columns,
    match_ids,
)
from glnn.data.encode import to_numeric_frame
from glnn.data.files import quote
from glnn.data.node_data import (
    SPLIT_KEYS,
    NodeData,
    check_weights,
    extract_links,
    ids_from_text,
    symmetric_from_pairs,
)
from glnn.exceptions import GraphWarning, InputError

# Names of the rows

_MAX_COMPARED_NAMES = 10_000  # an unknown name is compared with the first ones only


def resolve_row_names(x: Any, y: Any = None, ids: Any = None) -> np.ndarray | None:
    """Return the names of the rows of a fit as integers or text, or ``None`` without names.

    The names are ``ids`` if given. Otherwise they are the ids of a record or PyG ``Data``, or the
    index of a frame ``x`` unless it counts from 0. If ``x`` is ``None``, ``y`` takes its place.
    """
    rows = y if x is None else x
    if ids is None and isinstance(rows, pd.DataFrame | pd.Series):
        index = rows.index
        is_counter = isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1
        ids = None if is_counter else index.to_numpy()
    elif ids is None:  # a record has ids, PyG data have node_ids
        ids = rows.ids if isinstance(rows, NodeData) else getattr(rows, "node_ids", None)
    if ids is None:
        return None
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InputError(f"ids must hold one name for each row, got {quote(ids)}.")
    names = ids_from_text([str(name) for name in ids])
    n_rows = len(rows) if isinstance(rows, list) else getattr(rows, "shape", names.shape)[0]
    if len(names) != n_rows:
        raise InputError(f"ids must name each of the {n_rows} rows, got {len(names)} names.")
    return names


def find_row(node: int | str, names: np.ndarray | None) -> int:
    """Return the number of a row, given by its name (text) or its number."""
    if not isinstance(node, str):
        return node
    if names is None:
        raise InputError(
            f"node must be the number of a row, as the rows have no names, got {quote(node)}. "
            "Name them with the index of a DataFrame X or with ids= in fit."
        )
    texts = names.astype(np.str_)
    found = np.flatnonzero(texts == node)
    if not found.size:
        hint = did_you_mean(node, texts[:_MAX_COMPARED_NAMES].tolist())
        raise InputError(
            f"node must be the name or the number of a row, got {quote(node)}, an unknown name."
            f"{hint}"
        )
    if found.size > 1:
        raise InputError(
            f"node must name one row, got {quote(node)}, the name of {found.size} rows. Give its "
            f"number: {', '.join(map(str, found[:3].tolist()))}{', ...' * (found.size > 3)}."
        )
    return int(found[0])


# Features, labels and graph

# names of nodes; sources and targets, as positions in these; weights if any
NamedEdges = tuple[list[Any], np.ndarray, np.ndarray, np.ndarray | None]


def as_fit_arguments(
    x: Any, y: Any = None, graph: Any = None, validation: Any = None, ids: Any = None
) -> tuple[Any, Any, Any, Any]:
    """Return features, labels, graph and validation nodes of a fit as plain arrays, not checked.

    ``x`` may be ``None`` if there is only a graph. It may also be a :class:`NodeData` or PyG
    ``Data``; then labels, graph, validation nodes and ids that are not given are taken from it,
    and labels outside its training and validation nodes count as unknown. Missing values of
    pandas in ``y`` mean unlabelled. ``graph`` may also be a networkx graph, a frame of edges
    (source, target and optionally weight) or a square frame; its nodes are matched
    with ``ids``, by default the index of ``x`` unless that counts from 0. Tensors are detached.
    """
    names = resolve_row_names(x, y, ids)
    x, y, graph, validation = _unpack_record(x, y, graph, validation)
    if x is None:
        if y is None or graph is None:
            missing = "y" if y is None else "graph"
            raise InputError(f"X must not be None without {missing}. Give {missing}=, or features.")
        x = sp.identity(len(y), dtype=np.float32, format="csr")
    both = isinstance(y, pd.Series) and isinstance(x, pd.DataFrame) and len(y) == len(x)
    if both and not x.index.equals(y.index) and set(y.index) == set(x.index):
        raise InputError(
            "y must have the index of X in the same order, got the same names in another order. "
            "Give y.loc[X.index]."
        )
    features = convert_features(x)
    if graph is not None:
        n_nodes = features.shape[0] if hasattr(features, "shape") else len(np.asarray(features))
        graph = align_graph(graph, names, n_nodes)
    return features, convert_labels(y), graph, _to_numpy(validation)


def convert_features(x: Any) -> Any:
    """Convert features to a form that scikit-learn can check: arrays or frames of numbers."""
    return to_numeric_frame(x) if isinstance(x, pd.DataFrame) else _to_numpy(x)


def convert_labels(y: Any) -> Any:
    """Convert labels to an array; missing values become -1 in integers, ``None`` in objects."""
    y = _to_numpy(y)
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        y = y.iloc[:, 0]
    if not isinstance(y, pd.Series | pd.api.extensions.ExtensionArray | pd.Index):
        is_list = isinstance(y, list | tuple)
        if not is_list and not (isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1):
            return y
        n_text = sum(isinstance(label, str) for label in y)
        is_gap = [label is pd.NA or label is pd.NaT or (n_text and label != label) for label in y]
        if is_list and not any(is_gap):
            return y
    column = pd.Series(y)
    gaps = column.isna().to_numpy()
    if pd.api.types.is_integer_dtype(column.dtype):
        return column.to_numpy(dtype=np.int64, na_value=-1)
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "biuf":
        return column.to_numpy()
    labels = column.astype(object).to_numpy(copy=True)
    labels[gaps] = None
    return labels


def align_graph(graph: Any, ids: Sequence[Any] | np.ndarray | None, n_nodes: int) -> Any:
    """Return a networkx graph or a frame as a matrix in the order of the rows.

    Nodes are matched by name with ``ids``; without ids they must be numbered from 0. Any other
    graph is returned unchanged.
    """
    if _is_from_package(graph, "networkx"):
        nodes, source, target, weights = edges_from_networkx(graph)
    elif isinstance(graph, pd.DataFrame):
        if _is_square_table(graph):
            rows = match_node_names(list(graph.index), ids, n_nodes)
            columns = match_node_names(list(graph.columns), ids, n_nodes)
            matrix = np.zeros((n_nodes, n_nodes))
            matrix[np.ix_(rows, columns)] = graph.to_numpy(dtype=np.float64)
            return matrix
        nodes, source, target, weights = _edges_from_frame(graph, ids, n_nodes)
    elif _is_from_package(graph, "torch_geometric"):
        raise InputError("graph must not be PyG data, got some. Give all of it: fit(data).")
    else:
        return _to_numpy(graph)
    rows = match_node_names(nodes, ids, n_nodes)
    n_loops = int((source == target).sum())
    if n_loops:
        warnings.warn(
            f"graph has {n_loops} self loops; they are dropped.", GraphWarning, stacklevel=3
        )
    return symmetric_from_pairs(rows[source], rows[target], n_nodes, weights).astype(np.float64)


def _unpack_record(x: Any, y: Any, graph: Any, validation: Any) -> tuple[Any, ...]:
    """Take arguments that were not given from a record or PyG data.

    Labels are those of its training and validation nodes, or all of them without a split.
    """
    data = from_pyg(x) if _is_from_package(x, "torch_geometric") else x
    if isinstance(data, NodeData):
        nodes, splits = np.arange(data.n_nodes), data.splits
        if y is None:
            chosen = nodes[:0] if validation is None else nodes[np.asarray(validation)]
            seen = [splits.get("train", nodes), splits.get("val", nodes[:0]), chosen]
            y = data.visible_labels(np.concatenate(seen))
        rows = splits.get("val") if validation is None else validation
        return data.features, y, data.graph if graph is None else graph, rows
    return x, y, graph, validation


def match_node_names(
    nodes: Sequence[Any], ids: Sequence[Any] | np.ndarray | None, n_nodes: int
) -> np.ndarray:
    """Return the row of each named node; a name that no row has raises an error."""
    names = list(range(n_nodes)) if ids is None else np.asarray(ids, dtype=object).tolist()
    if len(names) != n_nodes or len(set(map(str, names))) != n_nodes:
        raise InputError(
            f"ids (the index of X) must give each of the {n_nodes} rows a distinct name, got "
            f"{len(names)} names, {len(set(map(str, names)))} of them distinct."
        )
    index = {str(name): row for row, name in enumerate(names)}
    rows, unknown = match_ids(map(str, nodes), index)
    if unknown:
        advice = (
            "Rows without names are numbered from 0: name them with the index of a DataFrame X or "
            "with ids=, or number the nodes of the graph."
            if ids is None
            else f"The rows have names such as {str(names[0])!r}."
        )
        raise InputError(
            f"graph must join rows of X, got {describe_unknown(unknown)} among its nodes. {advice}"
        )
    return rows


def _is_square_table(frame: pd.DataFrame) -> bool:
    """Whether a frame is a square table of weights, and not a list of edges."""
    names = {str(name).strip().lower() for name in frame.columns}
    is_list = names & set(SOURCE_NAMES) and names & set(TARGET_NAMES)
    is_square = set(map(str, frame.index)) == set(map(str, frame.columns))
    return not is_list and is_square and frame.shape[0] == frame.shape[1]


def _edges_from_frame(
    frame: pd.DataFrame, ids: Sequence[Any] | np.ndarray | None, n_nodes: int
) -> NamedEdges:
    """Return nodes, sources, targets and weights, as :func:`edges_from_networkx` does."""
    known = {str(name) for name in (range(n_nodes) if ids is None else ids)}
    i, j, w, notes = find_edge_columns("graph", frame, known)
    if notes:
        warnings.warn("; ".join(notes), GraphWarning, stacklevel=4)
    codes, nodes = pd.factorize(pd.concat([frame.iloc[:, i], frame.iloc[:, j]]))
    if (codes < 0).any():
        raise InputError("graph must name two ends for every edge, got a missing one.")
    weights = None if w is None else check_weights(frame.iloc[:, w])
    return list(nodes), codes[: len(frame)], codes[len(frame) :], weights


def _is_from_package(value: Any, package: str) -> bool:
    return any(base.__module__.split(".")[0] == package for base in type(value).__mro__)


def _to_numpy(value: Any) -> Any:
    """Convert a PyTorch tensor to an array, or to CSR if it is sparse; return others unchanged."""
    if not _is_from_package(value, "torch") or not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    if str(tensor.layout) == "torch.strided":
        return tensor.numpy()
    coo = tensor.to_sparse_coo().coalesce()
    rows, columns = coo.indices().numpy()
    return sp.csr_matrix((coo.values().numpy(), (rows, columns)), shape=tuple(tensor.shape))


# networkx and PyTorch Geometric; the libraries are imported only when used


def edges_from_networkx(network: Any) -> NamedEdges:
    """Return nodes, sources, targets and weights; ends are positions in the list of nodes.

    An edge without a weight has weight 1.
    """
    nodes = list(network.nodes)
    position = {node: k for k, node in enumerate(nodes)}
    edges = list(network.edges(data="weight", default=1.0))
    weights = check_weights([1.0 if weight is None else weight for *_, weight in edges])
    source = np.array([position[i] for i, _, _ in edges], dtype=np.int64)
    target = np.array([position[j] for _, j, _ in edges], dtype=np.int64)
    return nodes, source, target, weights


def to_pyg(data: NodeData) -> Any:
    """Return a ``torch_geometric.data.Data`` with dense ``x``, ``y`` (-1 unknown) and masks.

    ``class_names`` and ``node_ids`` become plain attributes.
    """
    geometric, torch = import_optional("torch_geometric.data"), import_optional("torch")
    links = extract_links(
        sp.csr_matrix((data.n_nodes, data.n_nodes)) if data.graph is None else data.graph
    )
    pairs = np.stack([np.r_[links.row, links.col], np.r_[links.col, links.row]]).astype(np.int64)
    out = geometric.Data(
        x=torch.from_numpy(data.features.toarray()),
        y=torch.from_numpy(data.labels.copy()),
        edge_index=torch.from_numpy(pairs),
        edge_weight=torch.from_numpy(np.r_[links.data, links.data].astype(np.float32)),
    )
    for key, nodes in data.splits.items():
        out[f"{key}_mask"] = torch.from_numpy(np.isin(np.arange(data.n_nodes), nodes))
    out.class_names = list(data.class_names)
    out.node_ids = data.node_ids.tolist()
    return out


def from_pyg(graph: Any) -> NodeData:
    """Return the record of a ``torch_geometric.data.Data``.

    ``y``, ``edge_index``, ``edge_weight``, one-dimensional masks, ``class_names`` and ``node_ids``
    are used if present.
    """

    def get(name: str) -> Any:
        return _to_numpy(getattr(graph, name, None))

    features, labels, pairs, weights = map(get, ("x", "y", "edge_index", "edge_weight"))
    if features is None:
        raise InputError("graph must have features x, got none. Use an identity matrix.")
    n_nodes = features.shape[0]
    labels = np.full(n_nodes, -1) if labels is None else labels.reshape(-1)
    masks = {key: get(f"{key}_mask") for key in SPLIT_KEYS}
    splits = {key: np.flatnonzero(mask) for key, mask in masks.items() if mask is not None}
    if any(masks[key].ndim != 1 for key in splits):
        raise InputError(
            "train_mask, val_mask and test_mask must have one dimension, got several splits. "
            "Choose one: data.train_mask = data.train_mask[:, 0]."
        )
    fields: dict[str, Any] = {"splits": splits}
    if get("class_names") is not None:
        fields["class_names"] = tuple(str(label) for label in graph.class_names)
    if get("node_ids") is not None:
        fields["ids"] = np.asarray(graph.node_ids)
    if pairs is not None:
        checked = None if weights is None else check_weights(weights.reshape(-1))
        fields["edges"] = symmetric_from_pairs(pairs[0], pairs[1], n_nodes, checked)
    return NodeData.from_arrays(features, labels, name="pyg", **fields)
