"""Random perturbations of edges, labels and features, each with its own seed."""

from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_integer, check_number
from glnn.data.node_data import NodeData, check_adjacency, extract_links, symmetric_from_pairs
from glnn.exceptions import InputError

DataOrGraph = TypeVar("DataOrGraph", NodeData, sp.csr_matrix)

_SMALL = 1_000_000


def delete_edges(data: DataOrGraph, share: float | int, seed: int = 0) -> DataOrGraph:
    """Return the data or graph without a random share of its edges.

    Examples
    --------
    >>> from glnn_lab.experiments.scale import path_graph
    >>> delete_edges(path_graph(11), 0.3, seed=1).n_edges
    7
    """
    rows, columns, weights, rng = _prepare(data, share, seed, "delete")
    keep = np.sort(rng.permutation(rows.size)[round(share * rows.size) :])
    note = f"deleted {share:g} of edges"
    changed: DataOrGraph = _rebuild(data, rows[keep], columns[keep], weights[keep], note)
    return changed


def add_edges(data: DataOrGraph, share: float | int, seed: int = 0) -> DataOrGraph:
    """Return the data or graph with random new edges of weight 1, as a share of those it has."""
    rows, columns, weights, rng = _prepare(data, share, seed, "add", high=np.inf)
    new_rows, new_columns = _non_edges(rows, columns, _n_nodes(data), round(share * rows.size), rng)
    changed: DataOrGraph = _rebuild(
        data,
        np.concatenate([rows, new_rows]),
        np.concatenate([columns, new_columns]),
        np.concatenate([weights, np.ones(new_rows.size, weights.dtype)]),
        f"added {share:g} of edges",
    )
    return changed


def rewire_edges(data: DataOrGraph, share: float | int, seed: int = 0) -> DataOrGraph:
    """Return the data or graph with a random share of edges moved to pairs that had none.

    The number of edges and their weights stay the same.
    """
    rows, columns, weights, rng = _prepare(data, share, seed, "rewire")
    count = round(share * rows.size)
    moved = rng.permutation(rows.size)[:count]
    new_rows, new_columns = _non_edges(rows, columns, _n_nodes(data), count, rng)
    rows, columns = rows.copy(), columns.copy()
    rows[moved], columns[moved] = new_rows, new_columns
    changed: DataOrGraph = _rebuild(data, rows, columns, weights, f"rewired {share:g} of edges")
    return changed


def poison_edges(data: NodeData, share: float | int, seed: int = 0) -> NodeData:
    """Return the data with a share of its edges poisoned (DICE).

    Each change deletes an edge within a class or, with equal probability, adds one between two
    classes. If no edge is left to delete, one is added. Nodes without a label are not changed.

    Notes
    -----
    Waniek et al., "Hiding individuals and communities in a social network", 2018: disconnect
    internally, connect externally, with the true classes in place of communities.
    """
    rows, columns, weights, rng = _prepare(data, share, seed, "poison")
    if data.n_classes < 2:
        raise InputError(f"poison_edges must have two classes or more, got {data.n_classes}.")
    labels, count = data.labels, round(share * rows.size)
    alike = np.flatnonzero((labels[rows] == labels[columns]) & (labels[rows] >= 0))
    n_deleted = min(int(rng.binomial(count, 0.5)), alike.size)
    gone = rng.permutation(alike)[:n_deleted]
    new_rows, new_columns = _unlike_pairs(rows, columns, labels, count - n_deleted, rng)
    keep = np.setdiff1d(np.arange(rows.size), gone)
    poisoned: NodeData = _rebuild(
        data,
        np.concatenate([rows[keep], new_rows]),
        np.concatenate([columns[keep], new_columns]),
        np.concatenate([weights[keep], np.ones(new_rows.size, weights.dtype)]),
        f"poisoned {share:g} of edges",
    )
    return poisoned


def flip_labels(
    data: NodeData, share: float | int, seed: int = 0, *, nodes: Any = None
) -> NodeData:
    """Return the data with a random share of labels changed to another class.

    With ``nodes``, only labels of these nodes are changed.
    """
    share, rng = _share_and_rng(share, seed, "flip")
    if data.n_classes < 2:
        raise InputError(f"flip_labels must have two classes or more, got {data.n_classes}.")
    pool = data.labelled if nodes is None else np.intersect1d(nodes, data.labelled)
    chosen = rng.permutation(pool)[: round(share * pool.size)]
    labels = data.labels.copy()
    step = rng.integers(1, data.n_classes, size=chosen.size)
    labels[chosen] = (labels[chosen] + step) % data.n_classes
    return _add_note(data, f"flipped {share:g} of labels", labels=labels)


def drop_features(data: NodeData, share: float | int, seed: int = 0) -> NodeData:
    """Return the data with a random share of its non-zero feature entries set to 0."""
    share, rng = _share_and_rng(share, seed, "drop")
    features = data.features.copy()
    features.data = features.data.copy()
    features.data[rng.permutation(features.nnz)[: round(share * features.nnz)]] = 0
    return _add_note(data, f"dropped {share:g} of feature entries", features=features)


def noise_features(
    data: NodeData, share: float | int, seed: int = 0, *, scale: float | int = 1.0
) -> NodeData:
    """Return the data with Gaussian noise on a random share of its non-zero feature entries.

    Zeros stay zeros, so that sparse features stay sparse. ``scale`` is the standard deviation of
    the noise as a multiple of the entries' root mean square.
    """
    share, rng = _share_and_rng(share, seed, "noise")
    check_number("scale", scale, low=0)
    features = data.features.copy()
    values = features.data.astype(np.float64)
    chosen = rng.permutation(values.size)[: round(share * values.size)]
    deviation = scale * float(np.sqrt(np.mean(values**2))) if values.size else 0.0
    values[chosen] += rng.normal(0.0, deviation, size=chosen.size)
    features.data = values
    return _add_note(data, f"noise on {share:g} of feature entries", features=features)


def _share_and_rng(
    share: Any, seed: Any, purpose: str, high: float = 1.0
) -> tuple[float, np.random.Generator]:
    """Check the share; return it with a generator for this kind of perturbation."""
    number = check_number("share", share, low=0, high=high)
    check_integer("seed", seed, low=0)
    return number, np.random.default_rng([seed, *purpose.encode()])


def _prepare(
    data: Any, share: Any, seed: Any, purpose: str, high: float = 1.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.random.Generator]:
    _, rng = _share_and_rng(share, seed, purpose, high)
    graph = data.graph if isinstance(data, NodeData) else data
    if graph is None:
        raise InputError("data must have a graph to change its edges, got none.")
    links = extract_links(check_adjacency(graph, graph.shape[0]))
    return links.row.astype(np.int64), links.col.astype(np.int64), links.data, rng


def _n_nodes(data: Any) -> int:
    return data.n_nodes if isinstance(data, NodeData) else int(data.shape[0])


def _rebuild(data: DataOrGraph, rows: Any, columns: Any, weights: Any, note: str) -> DataOrGraph:
    graph = symmetric_from_pairs(rows, columns, _n_nodes(data), weights)
    if isinstance(data, NodeData):
        return _add_note(data, note, graph=graph)
    return graph


def _add_note(data: NodeData, note: str, **changes: Any) -> NodeData:
    so_far = data.provenance.get("perturbed")
    text = note if so_far is None else f"{so_far}; {note}"
    return data.replace(provenance={**data.provenance, "perturbed": text}, **changes)


def _unlike_pairs(
    rows: np.ndarray,
    columns: np.ndarray,
    labels: np.ndarray,
    count: int,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw distinct pairs i < j of labelled nodes of different classes that are not edges."""
    n_nodes, known = labels.size, np.flatnonzero(labels >= 0)
    sizes = np.unique(labels[known], return_counts=True)[1]
    joined = np.count_nonzero(
        (labels[rows] != labels[columns]) & (labels[rows] >= 0) & (labels[columns] >= 0)
    )
    n_free = (known.size**2 - int((sizes**2).sum())) // 2 - joined
    if count > n_free:
        raise InputError(
            f"share must ask for at most the {n_free} unlike pairs without an edge, got {count}."
        )
    found = np.empty(0, dtype=np.int64)
    while found.size < count:
        ends = known[rng.integers(0, known.size, size=(2, 4 * (count - found.size) + 64))]
        codes = ends.min(axis=0) * n_nodes + ends.max(axis=0)
        fits = (labels[ends[0]] != labels[ends[1]]) & ~np.isin(codes, rows * n_nodes + columns)
        found = _unique_in_order(np.concatenate([found, codes[fits]]))
    return found[:count] // n_nodes, found[:count] % n_nodes


def _unique_in_order(codes: np.ndarray) -> np.ndarray:
    """Return the distinct numbers in order of first appearance."""
    fresh, first = np.unique(codes, return_index=True)
    ordered: np.ndarray = fresh[np.argsort(first)]
    return ordered


def _non_edges(
    rows: np.ndarray, columns: np.ndarray, n_nodes: int, count: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draw distinct pairs i < j that are not edges, without listing all pairs of large graphs."""
    n_pairs = n_nodes * (n_nodes - 1) // 2
    if count > n_pairs - rows.size:
        raise InputError(
            f"share must ask for at most the {n_pairs - rows.size} pairs without an edge, got "
            f"{count}."
        )
    taken = rows * n_nodes + columns
    if n_pairs <= _SMALL:
        i, j = np.triu_indices(n_nodes, k=1)
        free = np.setdiff1d(i * n_nodes + j, taken)
        found = rng.permutation(free)[:count]
        return found // n_nodes, found % n_nodes
    found = np.empty(0, dtype=np.int64)
    while found.size < count:
        ends = rng.integers(0, n_nodes, size=(2, 2 * (count - found.size) + 64))
        codes = ends.min(axis=0) * n_nodes + ends.max(axis=0)
        codes = codes[(ends[0] != ends[1]) & ~np.isin(codes, taken)]
        found = _unique_in_order(np.concatenate([found, codes]))
    return found[:count] // n_nodes, found[:count] % n_nodes
