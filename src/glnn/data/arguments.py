"""What users hand to ``fit``: frames, tensors, networkx graphs and PyG data become plain arrays."""

import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp

from glnn._utils import did_you_mean
from glnn.data.edges import SOURCE_NAMES, TARGET_NAMES, UnknownIds, edge_places
from glnn.data.encode import numeric_frame
from glnn.data.files import shown
from glnn.data.interop import checked_weights, from_pyg, network_edges, pyg_graph
from glnn.data.node_data import NodeData, ids_from_text, symmetric_from_pairs
from glnn.exceptions import GraphWarning, InputError

# --- row_names: Names of the rows of a fit: found in what it is given, used where people speak of

_MOST_COMPARED = 10_000
"""Names among which the one that was probably meant is looked for."""


def names_of_rows(x: Any, y: Any = None, ids: Any = None) -> np.ndarray | None:
    """Return the names of the rows of a fit as whole numbers or text, or nothing without names.

    Parameters
    ----------
    x, y, ids
        As in :func:`glnn.data.arguments.as_fit_arguments`: names are ``ids``, else those of a
        whole record, else the index of a frame ``x``, unless it only counts; without features that
        of a series ``y``.

    Examples
    --------
    >>> names_of_rows(pd.DataFrame({"age": [30, 40]}, index=["ann", "bob"])).tolist()
    ['ann', 'bob']
    >>> names_of_rows(np.eye(2), ids=["7", "12"]).tolist()
    [7, 12]
    """
    rows = y if x is None else x
    if ids is None:
        ids = _own_names(rows)
    if ids is None:
        return None
    if isinstance(ids, str) or not isinstance(ids, Iterable):
        raise InputError(f"ids must hold one name for each row, got {shown(ids)}.")
    names = ids_from_text([str(name) for name in ids])
    n_rows = len(rows) if isinstance(rows, list) else getattr(rows, "shape", names.shape)[0]
    if len(names) != n_rows:
        raise InputError(f"ids must name each of the {n_rows} rows, got {len(names)} names.")
    return names


def _own_names(rows: Any) -> Any:
    if isinstance(rows, NodeData):
        return rows.ids
    if isinstance(rows, pd.DataFrame | pd.Series):
        return index_names(rows)
    return getattr(rows, "node_ids", None)  # of PyG's data


def index_names(frame: pd.DataFrame | pd.Series) -> np.ndarray | None:
    """Return the index as names of the rows, or nothing if it only counts them."""
    index = frame.index
    if isinstance(index, pd.RangeIndex) and index.start == 0 and index.step == 1:
        return None
    return index.to_numpy()


def row_number(node: int | str, names: np.ndarray | None) -> int:
    """Return the number of a row: whole numbers are such, text is its name.

    Examples
    --------
    >>> row_number("bob", np.array(["ann", "bob"])), row_number(0, np.array(["ann", "bob"]))
    (1, 0)
    """
    if not isinstance(node, str):
        return node
    if names is None:
        raise InputError(
            f"node must be the number of a row, as the rows have no names, got {shown(node)}. "
            "Name them with the index of a DataFrame X or with ids= in fit."
        )
    texts = names.astype(np.str_)
    found = np.flatnonzero(texts == node)
    if not found.size:
        hint = did_you_mean(node, texts.tolist()) if len(texts) <= _MOST_COMPARED else ""
        raise InputError(
            f"node must be the name or the number of a row, got {shown(node)}, which names none."
            f"{hint}"
        )
    if found.size > 1:
        raise InputError(
            f"node must name one row, got {shown(node)}, the name of {found.size}. Give its "
            f"number: {', '.join(map(str, found[:3].tolist()))}{', ...' * (found.size > 3)}."
        )
    return int(found[0])


def name_column(names: np.ndarray | None, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Return the column ``name`` of a table of rows; none where rows have no names.

    Examples
    --------
    >>> name_column(np.array(["ann", "bob"]), np.array([1]))["name"].tolist()
    ['bob']
    """
    return {} if names is None else {"name": names[rows]}


# --- arguments: What users hand to ``fit``: frames, tensors, networkx graphs and PyG data become p


class FitArguments(NamedTuple):
    """Features, labels, graph and validation rows as the checks of ``fit`` take them."""

    x: Any
    y: Any
    graph: Any = None
    validation: Any = None


def as_fit_arguments(
    x: Any,
    y: Any = None,
    graph: Any = None,
    validation: Any = None,
    ids: Any = None,
) -> FitArguments:
    """Return plain arguments of ``fit``.

    Parameters
    ----------
    x
        Features; ``None``: there is only a graph; or a whole :class:`NodeData` or PyG ``Data``,
        which brings what is not given: labels (those outside its training and validation nodes
        count as unknown), graph, validation nodes and ids. The index of a frame names the rows,
        unless it counts from 0.
    y
        Labels; missing values of pandas mean unlabelled. Tensors are detached.
    graph
        Also a networkx graph, a frame of edges (source, target, perhaps weight), a square frame
        or PyG ``Data``; names are matched with those of the rows.
    validation
        Rows for choosing the epoch.
    ids
        Names of the rows; those of the index of ``x`` by default.
    """
    x, y, graph, validation, ids = _unpacked(x, y, graph, validation, ids)
    if x is None:
        x, ids = _no_features(y, graph, ids)
    if ids is None and isinstance(x, pd.DataFrame):
        ids = index_names(x)
    if isinstance(y, pd.Series) and isinstance(x, pd.DataFrame):
        _refuse_other_order(x, y)
    features = plain_features(x)
    if graph is not None:
        n_nodes = features.shape[0] if hasattr(features, "shape") else len(np.asarray(features))
        graph = named_graph(graph, ids, n_nodes)
    return FitArguments(features, plain_labels(y), graph, _detached(validation))


def _no_features(y: Any, graph: Any, ids: Any) -> tuple[sp.csr_matrix, Any]:
    """Return the identity in place of features, and names of the rows: the index of the labels."""
    if y is None or graph is None:
        missing = "y" if y is None else "graph"
        raise InputError(f"X must not be None without {missing}. Give {missing}=, or features.")
    if ids is None and isinstance(y, pd.Series):
        ids = index_names(y)
    return sp.identity(len(y), dtype=np.float32, format="csr"), ids


def plain_features(x: Any) -> Any:
    """Return features that scikit-learn can check: tensors detached, frames all numbers."""
    if isinstance(x, pd.DataFrame):
        return numeric_frame(x)
    return _detached(x)


def plain_labels(y: Any) -> Any:
    """Return labels as an array; what pandas calls missing becomes ``None``, or -1 among numbers.

    Examples
    --------
    >>> plain_labels(pd.Series([1, None, 0], dtype="Int64"))
    array([ 1, -1,  0])
    """
    y = _detached(y)
    if isinstance(y, pd.DataFrame) and y.shape[1] == 1:
        y = y.iloc[:, 0]
    if not isinstance(y, pd.Series | pd.api.extensions.ExtensionArray | pd.Index):
        is_list = isinstance(y, list | tuple)
        if not is_list and not (isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1):
            return y
        if is_list and not any(label is pd.NA or label is pd.NaT for label in y):
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


def named_graph(graph: Any, ids: Sequence[Any] | np.ndarray | None, n_nodes: int) -> Any:
    """Return a graph whose nodes have names as a matrix in the order of the rows.

    Parameters
    ----------
    graph
        A networkx graph, a frame, PyG ``Data``, or anything else, which is returned as it is.
    ids
        The names of the rows; ``None``: nodes must be numbered from 0.
    n_nodes
        Number of rows.
    """
    if _comes_from(graph, "networkx"):
        return _by_name(*network_edges(graph), ids, n_nodes)
    if isinstance(graph, pd.DataFrame):
        return _from_frame(graph, ids, n_nodes)
    if _comes_from(graph, "torch_geometric"):
        return pyg_graph(graph, n_nodes)
    return _detached(graph)


def _unpacked(x: Any, y: Any, graph: Any, validation: Any, ids: Any) -> tuple[Any, ...]:
    """Take from a record or PyG data what was not given apart from it."""
    whole = _record(x)
    if whole is not None:
        labels = _visible_labels(whole, validation) if y is None else y
        held = whole.splits.get("val") if validation is None else validation
        names = whole.ids if ids is None else ids
        return whole.features, labels, whole.graph if graph is None else graph, held, names
    if _comes_from(graph, "torch_geometric") and y is not None and y is getattr(graph, "y", None):
        record = from_pyg(graph, x=_detached(x))
        held = record.splits.get("val") if validation is None else validation
        return x, _visible_labels(record, validation), record.graph, held, ids
    return x, y, graph, validation, ids


def _record(data: Any) -> NodeData | None:
    if isinstance(data, NodeData):
        return data
    return from_pyg(data) if _comes_from(data, "torch_geometric") else None


def _visible_labels(data: NodeData, validation: Any) -> np.ndarray:
    """Return the labels of training and validation nodes, or all where there is no split."""
    numbers = data.labels.copy()
    if "train" in data.splits:
        seen = [data.splits["train"], data.splits.get("val", np.empty(0, dtype=np.int64))]
        hidden = np.setdiff1d(np.arange(data.n_nodes), np.concatenate(seen))
        if validation is not None:
            hidden = np.setdiff1d(hidden, np.arange(data.n_nodes)[np.asarray(validation)])
        numbers[hidden] = -1
    if data.class_names == tuple(map(str, range(data.n_classes))):
        return numbers
    names = np.array([*data.class_names, ""], dtype=np.str_)
    return np.asarray(names[numbers])


def _refuse_other_order(frame: pd.DataFrame, labels: pd.Series) -> None:
    same = frame.index.equals(labels.index)
    if not same and len(labels) == len(frame) and set(labels.index) == set(frame.index):
        raise InputError(
            "y must have the index of X in the same order, got the same names in another order. "
            "Give y.loc[X.index]."
        )


def _by_name(
    nodes: Sequence[Any],
    source: np.ndarray,
    target: np.ndarray,
    weights: np.ndarray | None,
    ids: Sequence[Any] | np.ndarray | None,
    n_nodes: int,
) -> sp.csr_matrix:
    """Return the graph of the rows, where ``source`` and ``target`` are places in ``nodes``."""
    place = row_places(nodes, ids, n_nodes)
    n_loops = int((source == target).sum())
    if n_loops:
        warnings.warn(
            f"graph has {n_loops} self loops; they are dropped.", GraphWarning, stacklevel=4
        )
    return symmetric_from_pairs(place[source], place[target], n_nodes, weights).astype(np.float64)


def row_places(
    nodes: Sequence[Any], ids: Sequence[Any] | np.ndarray | None, n_nodes: int
) -> np.ndarray:
    """Return the row of each named node; names that no row has are refused.

    Examples
    --------
    >>> row_places(["bob", "ann"], ["ann", "bob", "cy"], 3).tolist()
    [1, 0]
    """
    names = list(range(n_nodes)) if ids is None else np.asarray(ids, dtype=object).tolist()
    if len(names) != n_nodes or len(set(map(str, names))) != n_nodes:
        raise InputError(
            f"ids (the index of X) must give each of the {n_nodes} rows a name of its own, got "
            f"{len(names)} of which {len(set(map(str, names)))} differ."
        )
    index = {str(name): row for row, name in enumerate(names)}
    unknown = UnknownIds.of({str(node): None for node in nodes if str(node) not in index})
    if unknown.count:
        advice = (
            "Rows without names are numbered from 0: name them with the index of a DataFrame X or "
            "with ids=, or number the nodes of the graph."
            if ids is None
            else f"The rows have names such as {str(names[0])!r}."
        )
        raise InputError(f"graph must join rows of X, got {unknown} among its nodes. {advice}")
    return np.array([index[str(node)] for node in nodes], dtype=np.int64)


def _from_frame(
    frame: pd.DataFrame, ids: Sequence[Any] | np.ndarray | None, n_nodes: int
) -> sp.csr_matrix | np.ndarray:
    """Return the graph of a list of edges, or of a square table of weights."""
    names = [str(name).strip().lower() for name in frame.columns]
    is_list = set(names) & set(SOURCE_NAMES) and set(names) & set(TARGET_NAMES)
    if not is_list and frame.shape[0] == frame.shape[1]:
        rows = row_places(list(frame.index), ids, n_nodes)
        columns = row_places(list(frame.columns), ids, n_nodes)
        matrix = np.zeros((n_nodes, n_nodes))
        matrix[np.ix_(rows, columns)] = frame.to_numpy(dtype=np.float64)
        return matrix
    if not is_list:
        raise InputError(
            "graph as a frame must have the columns source and target, or be square with the names "
            f"of the rows, got columns {', '.join(map(repr, names[:4]))} and {len(frame)} rows."
        )
    i, j, w = edge_places(names)
    ends = pd.concat([frame.iloc[:, i], frame.iloc[:, j]])
    codes, nodes = pd.factorize(ends)
    if (codes < 0).any():
        raise InputError("graph must name two ends for every edge, got a missing one.")
    weights = None if w is None else checked_weights(frame.iloc[:, w])
    return _by_name(list(nodes), codes[: len(frame)], codes[len(frame) :], weights, ids, n_nodes)


def _comes_from(value: Any, package: str) -> bool:
    return any(base.__module__.split(".")[0] == package for base in type(value).__mro__)


def _detached(value: Any) -> Any:
    """Return a tensor of PyTorch as an array, or a CSR matrix where it is sparse."""
    if not _comes_from(value, "torch") or not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    if str(tensor.layout) == "torch.strided":
        return tensor.numpy()
    coo = tensor.to_sparse_coo().coalesce()
    rows, columns = coo.indices().numpy()
    return sp.csr_matrix((coo.values().numpy(), (rows, columns)), shape=tuple(tensor.shape))
