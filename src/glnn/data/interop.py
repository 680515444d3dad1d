"""Graphs of networkx, and data of PyTorch Geometric; the libraries are imported only when used."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._utils import import_optional
from glnn.data.node_data import SPLIT_KEYS, NodeData, symmetric_from_pairs, upper_triangle
from glnn.exceptions import InputError


def check_weights(weights: Any) -> np.ndarray:
    """Check that edge weights are finite and at least 0; return them as float64."""
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("weights of edges must be numbers, got others.") from None
    if not (np.isfinite(array) & (array >= 0)).all():
        raise InputError("weights of edges must be finite and at least 0, got others.")
    return array


def add_weighted_edges(network: Any, graph: sp.csr_matrix, names: Sequence[Any]) -> None:
    """Add the edges of a symmetric matrix to a networkx graph whose nodes have these names."""
    rows, columns, weights = upper_triangle(graph)
    ends = zip(rows.tolist(), columns.tolist(), weights.tolist())
    network.add_weighted_edges_from((names[i], names[j], w) for i, j, w in ends)


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


def to_pyg(data: NodeData, *, graph: Any = None) -> Any:
    """Return a ``torch_geometric.data.Data`` with dense ``x``, ``y`` (-1 unknown) and masks.

    ``class_names`` and ``node_ids`` become plain attributes. ``graph`` is another graph on the same
    nodes, for instance a learned one.
    """
    geometric = import_optional("torch_geometric.data")
    import torch

    graph = data.graph if graph is None else graph
    if graph is None:
        graph = sp.csr_matrix((data.n_nodes, data.n_nodes), dtype=np.float32)
    if not sp.issparse(graph) or graph.shape != (data.n_nodes, data.n_nodes):
        raise InputError(f"graph must be sparse with {data.n_nodes} nodes, got another object.")
    rows, columns, weights = upper_triangle(graph)
    pairs = np.concatenate([np.stack([rows, columns]), np.stack([columns, rows])], axis=1)
    out = geometric.Data(
        x=torch.from_numpy(data.features.toarray()),
        y=torch.from_numpy(data.labels.copy()),
        edge_index=torch.from_numpy(pairs),
        edge_weight=torch.from_numpy(np.concatenate([weights, weights]).astype(np.float32)),
    )
    for key, nodes in data.splits.items():
        out[f"{key}_mask"] = torch.from_numpy(np.isin(np.arange(data.n_nodes), nodes))
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
    masks = {key: _get_pyg_array(graph, f"{key}_mask") for key in SPLIT_KEYS}
    masks = {key: mask for key, mask in masks.items() if mask is not None}
    if any(mask.ndim != 1 for mask in masks.values()):
        raise InputError(
            "train_mask, val_mask and test_mask must have one dimension, got several splits. "
            "Choose one: data.train_mask = data.train_mask[:, 0]."
        )
    fields: dict[str, Any] = {"splits": {key: np.flatnonzero(mask) for key, mask in masks.items()}}
    if getattr(graph, "class_names", None) is not None:
        fields["class_names"] = tuple(str(label) for label in graph.class_names)
    if getattr(graph, "node_ids", None) is not None:
        fields["ids"] = np.asarray(graph.node_ids)
    edges = graph_from_pyg(graph, n_nodes)
    return NodeData.from_arrays(features, labels, edges=edges, name=name, **fields)


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
