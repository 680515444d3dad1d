"""Records from and to SciPy, networkx and PyTorch Geometric; each is imported only when used."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._utils import need
from glnn.data.node_data import SPLIT_KEYS, NodeData, symmetric_from_pairs, upper_pairs
from glnn.data.tables import encode_labels, splits_from
from glnn.exceptions import InputError


def from_scipy(graph: Any, features: Any = None, labels: Any = None, **fields: Any) -> NodeData:
    """Return the record of a sparse adjacency matrix, of any SciPy format.

    Parameters
    ----------
    graph
        Square; directions and self loops are dropped, the larger of two weights is kept.
    features
        Array or sparse matrix; the identity by default.
    labels
        Class numbers, -1 where unknown; all unknown by default.
    **fields
        Other fields of :class:`NodeData`.
    """
    if not sp.issparse(graph) or graph.ndim != 2 or graph.shape[0] != graph.shape[1]:
        shape = getattr(graph, "shape", type(graph).__name__)
        raise InputError(f"graph must be a square sparse matrix, got {shape}.")
    n_nodes = int(graph.shape[0])
    coo = sp.coo_matrix(graph)
    coo.sum_duplicates()
    weights = checked_weights(coo.data)
    return NodeData.from_arrays(
        sp.identity(n_nodes, dtype=np.float32, format="csr") if features is None else features,
        np.full(n_nodes, -1) if labels is None else labels,
        edges=symmetric_from_pairs(coo.row, coo.col, n_nodes, weights),
        **fields,
    )


def to_scipy(data: NodeData) -> sp.csr_matrix:
    """Return a copy of the graph that may be written to; an empty one if there is none."""
    if data.graph is None:
        return sp.csr_matrix((data.n_nodes, data.n_nodes), dtype=np.float32)
    return data.graph.copy()


def checked_weights(weights: Any) -> np.ndarray:
    """Return weights of edges as float64, if they are finite and at least 0."""
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("weights of edges must be numbers, got others.") from None
    if not (np.isfinite(array) & (array >= 0)).all():
        raise InputError("weights of edges must be finite and at least 0, got others.")
    return array


def to_networkx(data: NodeData, *, graph: Any = None) -> Any:
    """Return a ``networkx.Graph`` whose nodes are the ids.

    Parameters
    ----------
    data
        The record. Nodes get ``x`` (list of features), ``label`` where it is known and
        ``split`` where there is one.
    graph
        Another graph on the same nodes, for instance a learned one.

    Returns
    -------
    networkx.Graph
        Edges carry ``weight``.
    """
    network = need("networkx").Graph(name=data.name)
    ids = data.node_ids.tolist()
    split = {int(node): key for key, nodes in data.splits.items() for node in nodes}
    for row, node in enumerate(ids):
        attributes: dict[str, Any] = {"x": data.features[[row]].toarray().ravel().tolist()}
        if data.labels[row] >= 0:
            attributes["label"] = data.class_names[data.labels[row]]
        if row in split:
            attributes["split"] = split[row]
        network.add_node(node, **attributes)
    add_weighted_edges(network, _chosen_graph(data, graph), ids)
    return network


def add_weighted_edges(network: Any, graph: sp.csr_matrix, names: Sequence[Any]) -> None:
    """Add the edges of a symmetric matrix to a network whose nodes have these names."""
    rows, columns, weights = upper_pairs(graph)
    ends = zip(rows.tolist(), columns.tolist(), weights.tolist())
    network.add_weighted_edges_from((names[i], names[j], w) for i, j, w in ends)


def pairs_of_network(network: Any) -> sp.csr_matrix:
    """Return the undirected graph of a network, its nodes in their own order."""
    nodes, source, target, weights = network_edges(network)
    return symmetric_from_pairs(source, target, len(nodes), weights)


def network_edges(network: Any) -> tuple[list[Any], np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes, and for each edge the places of its two ends and its weight, else 1."""
    nodes = list(network.nodes)
    place = {node: k for k, node in enumerate(nodes)}
    edges = list(network.edges(data="weight", default=1.0))
    weights = checked_weights([1.0 if weight is None else weight for *_, weight in edges])
    source = np.array([place[i] for i, _, _ in edges], dtype=np.int64)
    target = np.array([place[j] for _, j, _ in edges], dtype=np.int64)
    return nodes, source, target, weights


def _chosen_graph(data: NodeData, graph: Any) -> sp.csr_matrix:
    if graph is None:
        return to_scipy(data)
    if not sp.issparse(graph) or graph.shape != (data.n_nodes, data.n_nodes):
        raise InputError(f"graph must be sparse with {data.n_nodes} nodes, got another.")
    return sp.csr_matrix(graph)


def from_networkx(network: Any, *, label: str = "label", name: str = "networkx") -> NodeData:
    """Return the record of a ``networkx`` graph.

    Parameters
    ----------
    network
        Directions and self loops are dropped; parallel edges keep the largest ``weight``.
        Features are the node attribute ``x`` (a list of numbers), or else the identity.
    label
        The node attribute that holds the class; nodes without it are unlabelled.
    name
        Name of the record.
    """
    nodes = list(network.nodes(data=True))
    if not nodes:
        raise InputError("network must have at least one node, got none.")
    labels, class_names = encode_labels([str(values.get(label, "")) for _, values in nodes])
    return NodeData(
        features=_attribute_features([values for _, values in nodes]),
        labels=labels,
        graph=pairs_of_network(network),
        class_names=class_names,
        splits=splits_from([str(values.get("split", "")) for _, values in nodes]),
        ids=np.array([str(node) for node, _ in nodes]),
        name=name,
    )


def _attribute_features(attributes: list[dict[str, Any]]) -> sp.csr_matrix:
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

    Parameters
    ----------
    data
        The record; ``class_names`` and ``node_ids`` are kept as plain attributes.
    graph
        Another graph on the same nodes, for instance a learned one.
    """
    geometric = need("torch_geometric.data")
    import torch

    rows, columns, weights = upper_pairs(_chosen_graph(data, graph))
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

    Parameters
    ----------
    graph
        With ``x``; ``y``, ``edge_index``, ``edge_weight``, one-dimensional masks, ``class_names``
        and ``node_ids`` are used where they are there.
    x
        Other features to take.
    name
        Name of the record.
    """
    features: Any = _pyg_array(graph, "x") if x is None else x
    if features is None:
        raise InputError("graph must have features x, got none. Use an identity matrix.")
    n_nodes = features.shape[0]
    labels = _pyg_array(graph, "y")
    labels = np.full(n_nodes, -1) if labels is None else labels.reshape(-1)
    fields: dict[str, Any] = {"name": name, "splits": _pyg_splits(graph)}
    if getattr(graph, "class_names", None) is not None:
        fields["class_names"] = tuple(str(label) for label in graph.class_names)
    if getattr(graph, "node_ids", None) is not None:
        fields["ids"] = np.asarray(graph.node_ids)
    return NodeData.from_arrays(features, labels, edges=pyg_graph(graph, n_nodes), **fields)


def _pyg_array(graph: Any, key: str) -> Any:
    value = getattr(graph, key, None)
    if value is None:
        return None
    dense = value.to_dense() if getattr(value, "is_sparse", False) else value
    return dense.detach().cpu().numpy().copy()


def pyg_graph(graph: Any, n_nodes: int) -> sp.csr_matrix | None:
    """Return the undirected graph of a ``torch_geometric.data.Data``, or nothing without edges."""
    pairs = _pyg_array(graph, "edge_index")
    if pairs is None:
        return None
    weights = _pyg_array(graph, "edge_weight")
    checked = None if weights is None else checked_weights(weights.reshape(-1))
    return symmetric_from_pairs(pairs[0], pairs[1], n_nodes, checked)


def _pyg_splits(graph: Any) -> dict[str, np.ndarray]:
    found = {key: _pyg_array(graph, f"{key}_mask") for key in SPLIT_KEYS}
    masks = {key: mask for key, mask in found.items() if mask is not None}
    if any(mask.ndim != 1 for mask in masks.values()):
        raise InputError(
            "train_mask, val_mask and test_mask must have one dimension, got several splits. "
            "Choose one: data.train_mask = data.train_mask[:, 0]."
        )
    return {key: np.flatnonzero(mask) for key, mask in masks.items()}
