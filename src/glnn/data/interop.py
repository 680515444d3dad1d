"""Conversion between NodeData and SciPy, networkx or PyTorch Geometric.

The libraries are imported only when used.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._utils import import_optional
from glnn.data.node_data import SPLIT_KEYS, NodeData, symmetric_from_pairs, upper_triangle
from glnn.data.tables import encode_labels, parse_splits
from glnn.exceptions import InputError


def from_scipy(graph: Any, features: Any = None, labels: Any = None, **fields: Any) -> NodeData:
    """Return the record of a square sparse matrix of any SciPy format.

    Directions and self loops are dropped; of two weights the larger is kept. Features default to
    the identity, labels to unknown (-1). ``fields`` are other fields of :class:`NodeData`.
    """
    if not sp.issparse(graph) or graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        shape = getattr(graph, "shape", type(graph).__name__)
        raise InputError(f"graph must be a square sparse matrix, got {shape}.")
    n_nodes = int(graph.shape[0])
    coo = sp.coo_matrix(graph)
    coo.sum_duplicates()
    weights = check_weights(coo.data)
    return NodeData.from_arrays(
        sp.identity(n_nodes, dtype=np.float32, format="csr") if features is None else features,
        np.full(n_nodes, -1) if labels is None else labels,
        edges=symmetric_from_pairs(coo.row, coo.col, n_nodes, weights),
        **fields,
    )


def to_scipy(data: NodeData) -> sp.csr_matrix:
    """Return a writable copy of the graph; an empty graph if the record has none."""
    if data.graph is None:
        return sp.csr_matrix((data.n_nodes, data.n_nodes), dtype=np.float32)
    return data.graph.copy()


def check_weights(weights: Any) -> np.ndarray:
    """Check that edge weights are finite and at least 0; return them as float64."""
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("weights of edges must be numbers, got others.") from None
    if not (np.isfinite(array) & (array >= 0)).all():
        raise InputError("weights of edges must be finite and at least 0, got others.")
    return array


def to_networkx(data: NodeData, *, graph: Any = None) -> Any:
    """Return a ``networkx.Graph`` whose nodes are the ids.

    Nodes have the attribute ``x`` (list of features) and, if known, ``label`` and ``split``; edges
    have ``weight``. ``graph`` is another graph on the same nodes, for instance a learned one.
    """
    network = import_optional("networkx").Graph(name=data.name)
    ids = data.node_ids.tolist()
    split = {int(node): key for key, nodes in data.splits.items() for node in nodes}
    for row, node in enumerate(ids):
        attributes: dict[str, Any] = {"x": data.features[[row]].toarray().ravel().tolist()}
        if data.labels[row] >= 0:
            attributes["label"] = data.class_names[data.labels[row]]
        if row in split:
            attributes["split"] = split[row]
        network.add_node(node, **attributes)
    add_weighted_edges(network, _select_graph(data, graph), ids)
    return network


def add_weighted_edges(network: Any, graph: sp.csr_matrix, names: Sequence[Any]) -> None:
    """Add the edges of a symmetric matrix to a networkx graph whose nodes have these names."""
    rows, columns, weights = upper_triangle(graph)
    ends = zip(rows.tolist(), columns.tolist(), weights.tolist())
    network.add_weighted_edges_from((names[i], names[j], w) for i, j, w in ends)


def graph_from_networkx(network: Any) -> sp.csr_matrix:
    """Return the undirected graph of a networkx graph, nodes in the order of networkx."""
    nodes, source, target, weights = edges_from_networkx(network)
    return symmetric_from_pairs(source, target, len(nodes), weights)


def edges_from_networkx(network: Any) -> tuple[list[Any], np.ndarray, np.ndarray, np.ndarray]:
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


def _select_graph(data: NodeData, graph: Any) -> sp.csr_matrix:
    if graph is None:
        return to_scipy(data)
    if not sp.issparse(graph) or graph.shape != (data.n_nodes, data.n_nodes):
        raise InputError(f"graph must be sparse with {data.n_nodes} nodes, got another object.")
    return sp.csr_matrix(graph)


def from_networkx(network: Any, *, label: str = "label", name: str = "networkx") -> NodeData:
    """Return the record of a ``networkx`` graph.

    Directions and self loops are dropped; parallel edges keep the largest ``weight``. Features are
    the node attribute ``x`` (a list of numbers), else the identity. ``label`` is the node attribute
    with the class; nodes without it are unlabelled. ``name`` is the name of the record.
    """
    nodes = list(network.nodes(data=True))
    if not nodes:
        raise InputError("network must have at least one node, got none.")
    labels, class_names = encode_labels([str(values.get(label, "")) for _, values in nodes])
    return NodeData(
        features=_features_from_attributes([values for _, values in nodes]),
        labels=labels,
        graph=graph_from_networkx(network),
        class_names=class_names,
        splits=parse_splits([str(values.get("split", "")) for _, values in nodes]),
        ids=np.array([str(node) for node, _ in nodes]),
        name=name,
    )


def _features_from_attributes(attributes: list[dict[str, Any]]) -> sp.csr_matrix:
    with_x = sum("x" in values for values in attributes)
    if not with_x:
        return sp.identity(len(attributes), dtype=np.float32, format="csr")
    if with_x < len(attributes):
        raise InputError(
            f"every node must have the attribute x, got {with_x} of {len(attributes)}."
        )
    try:
        dense = np.array([values["x"] for values in attributes], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError("the attribute x must be a list of numbers, equally long.") from error
    return sp.csr_matrix(np.atleast_2d(dense) if dense.ndim > 1 else dense[:, None])


def to_pyg(data: NodeData, *, graph: Any = None) -> Any:
    """Return a ``torch_geometric.data.Data`` with dense ``x``, ``y`` (-1 unknown) and masks.

    ``class_names`` and ``node_ids`` become plain attributes. ``graph`` is another graph on the same
    nodes, for instance a learned one.
    """
    geometric = import_optional("torch_geometric.data")
    import torch

    rows, columns, weights = upper_triangle(_select_graph(data, graph))
    pairs = np.concatenate([np.stack([rows, columns]), np.stack([columns, rows])], axis=1)
    out = geometric.Data(
        x=torch.from_numpy(data.features.toarray()),
        y=torch.from_numpy(data.labels.copy()),
        edge_index=torch.from_numpy(pairs),
        edge_weight=torch.from_numpy(np.concatenate([weights, weights]).astype(np.float32)),
    )
    for key, nodes in data.splits.items():
        mask = np.zeros(data.n_nodes, dtype=bool)
        mask[nodes] = True
        out[f"{key}_mask"] = torch.from_numpy(mask)
    out.class_names = list(data.class_names)
    out.node_ids = data.node_ids.tolist()
    return out


def from_pyg(graph: Any, *, x: Any = None, name: str = "pyg") -> NodeData:
    """Return the record of a ``torch_geometric.data.Data``.

    ``y``, ``edge_index``, ``edge_weight``, one-dimensional masks, ``class_names`` and ``node_ids``
    are used if present. ``x`` replaces its features; ``name`` is the name of the record.
    """
    features: Any = _get_pyg_array(graph, "x") if x is None else x
    if features is None:
        raise InputError("graph must have features x, got none. Use an identity matrix.")
    n_nodes = features.shape[0]
    labels = _get_pyg_array(graph, "y")
    labels = np.full(n_nodes, -1) if labels is None else labels.reshape(-1)
    fields: dict[str, Any] = {"name": name, "splits": _splits_from_masks(graph)}
    if getattr(graph, "class_names", None) is not None:
        fields["class_names"] = tuple(str(label) for label in graph.class_names)
    if getattr(graph, "node_ids", None) is not None:
        fields["ids"] = np.asarray(graph.node_ids)
    return NodeData.from_arrays(features, labels, edges=graph_from_pyg(graph, n_nodes), **fields)


def _get_pyg_array(graph: Any, key: str) -> Any:
    value = getattr(graph, key, None)
    if value is None:
        return None
    dense = value.to_dense() if getattr(value, "is_sparse", False) else value
    return dense.detach().cpu().numpy().copy()


def graph_from_pyg(graph: Any, n_nodes: int) -> sp.csr_matrix | None:
    """Return the undirected graph of PyG ``Data``, or ``None`` without ``edge_index``."""
    pairs = _get_pyg_array(graph, "edge_index")
    if pairs is None:
        return None
    weights = _get_pyg_array(graph, "edge_weight")
    checked = None if weights is None else check_weights(weights.reshape(-1))
    return symmetric_from_pairs(pairs[0], pairs[1], n_nodes, checked)


def _splits_from_masks(graph: Any) -> dict[str, np.ndarray]:
    found = {key: _get_pyg_array(graph, f"{key}_mask") for key in SPLIT_KEYS}
    masks = {key: mask for key, mask in found.items() if mask is not None}
    if any(mask.ndim != 1 for mask in masks.values()):
        raise InputError(
            "train_mask, val_mask and test_mask must have one dimension, got several splits. "
            "Choose one: data.train_mask = data.train_mask[:, 0]."
        )
    return {key: np.flatnonzero(mask) for key, mask in masks.items()}
