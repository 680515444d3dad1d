"""Synthetic data with known classes: Gaussian blobs, block models, paths."""

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_integer, check_number
from glnn.data.node_data import NodeData, symmetric_from_pairs


def blobs(
    n_nodes: int = 300,
    n_classes: int = 3,
    n_features: int = 2,
    *,
    separation: float | int = 4.0,
    seed: int = 0,
) -> NodeData:
    """Return Gaussian clouds of unit deviation, one for each class, without a graph.

    Class sizes differ by at most one node; ``separation`` is the typical distance between two
    centres.
    """
    rng = np.random.default_rng(check_integer("seed", seed, low=0))
    labels = _cycle_labels(n_nodes, n_classes)
    features = _draw_clouds(labels, n_classes, n_features, separation, rng)
    note = {"generated": f"blobs, separation {separation:g}, seed {seed}"}
    return NodeData(features, labels, None, _class_names(n_classes), name="blobs", provenance=note)


def block_model(
    n_nodes: int = 300,
    n_classes: int = 3,
    *,
    degree: float | int = 8.0,
    homophily: float | int = 0.8,
    n_features: int = 16,
    separation: float | int = 2.0,
    power: float | int | None = None,
    seed: int = 0,
) -> NodeData:
    """Return a stochastic block model with Gaussian features, in time linear in its edges.

    Each edge joins two nodes of a class with probability ``homophily``, otherwise two classes.
    Repeated pairs are merged, so the mean degree of a small or dense graph is below ``degree``.
    With a ``power`` above 1 the expected degrees follow a power law with this exponent (a
    degree-corrected block model); ``None`` draws all nodes equally often.

    Examples
    --------
    >>> data = block_model(1000, 4, seed=1)
    >>> data.n_nodes, data.n_classes, round(data.homophily, 1)
    (1000, 4, 0.8)
    """
    check_number("degree", degree, low=0)
    check_number("homophily", homophily, low=0, high=1)
    rng = np.random.default_rng(check_integer("seed", seed, low=0))
    labels = _cycle_labels(n_nodes, n_classes)
    features = _draw_clouds(labels, n_classes, n_features, separation, rng)
    propensity = _draw_propensities(n_nodes, power, rng)
    n_drawn = round(n_nodes * degree / 2)
    source = _draw_nodes(propensity, n_drawn, rng)
    inside = rng.random(n_drawn) < homophily
    target = _draw_partners(labels[source], inside, propensity, n_classes, rng)
    graph = symmetric_from_pairs(source, target, n_nodes)
    note = {"generated": f"block model, homophily {homophily:g}, seed {seed}"}
    return NodeData(
        features, labels, graph, _class_names(n_classes), name="block_model", provenance=note
    )


def path_graph(n_nodes: int) -> NodeData:
    """Return a path of nodes, each linked to the next; the first half is class 0."""
    check_integer("n_nodes", n_nodes, low=2)
    steps = np.arange(n_nodes - 1)
    return NodeData(
        features=sp.identity(n_nodes, dtype=np.float32, format="csr"),
        labels=(np.arange(n_nodes) >= n_nodes // 2).astype(np.int64),
        graph=symmetric_from_pairs(steps, steps + 1, n_nodes),
        class_names=("first", "second"),
        name="path",
    )


def _cycle_labels(n_nodes: int, n_classes: int) -> np.ndarray:
    check_integer("n_classes", n_classes, low=1)
    check_integer("n_nodes", n_nodes, low=n_classes)
    return np.arange(n_nodes, dtype=np.int64) % n_classes


def _class_names(n_classes: int) -> tuple[str, ...]:
    return tuple(f"class {c}" for c in range(n_classes))


def _draw_clouds(
    labels: np.ndarray,
    n_classes: int,
    n_features: int,
    separation: float | int,
    rng: np.random.Generator,
) -> sp.csr_matrix:
    check_integer("n_features", n_features, low=1)
    check_number("separation", separation, low=0)
    centres = rng.normal(size=(n_classes, n_features)) * separation / np.sqrt(2 * n_features)
    noise = rng.standard_normal(size=(labels.size, n_features), dtype=np.float32)
    return sp.csr_matrix(centres[labels].astype(np.float32) + noise)


def _draw_propensities(
    n_nodes: int, power: float | int | None, rng: np.random.Generator
) -> np.ndarray:
    """Return the relative frequency with which each node is drawn as an end of an edge."""
    if power is None:
        return np.ones(n_nodes)
    exponent = check_number("power", power, low=1, open_low=True)
    heavy = (1 - rng.random(n_nodes)) ** (-1 / (exponent - 1))
    return np.minimum(heavy, np.sqrt(n_nodes))  # a simple graph cannot have larger expected degrees


def _draw_nodes(propensity: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    cumulative = np.cumsum(propensity)
    drawn: np.ndarray = np.searchsorted(
        cumulative, rng.random(count) * cumulative[-1], side="right"
    )
    return drawn


def _draw_partners(
    source_class: np.ndarray,
    inside: np.ndarray,
    propensity: np.ndarray,
    n_classes: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw the other ends of edges: in the same class where ``inside``, else in another one."""
    step = rng.integers(1, max(n_classes, 2), size=source_class.size)
    wanted = np.where(inside, source_class, (source_class + step) % n_classes)
    target = np.empty(source_class.size, dtype=np.int64)
    for c in range(n_classes):
        rows = np.flatnonzero(wanted == c)
        members = np.arange(c, propensity.size, n_classes)
        target[rows] = members[_draw_nodes(propensity[members], rows.size, rng)]
    return target
