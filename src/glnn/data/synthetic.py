"""Synthetic data with known classes: Gaussian blobs and block models."""

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
    data = block_model(
        n_nodes, n_classes, degree=0, n_features=n_features, separation=separation, seed=seed
    )
    note = {"generated": f"blobs, separation {separation:g}, seed {seed}"}
    return data.replace(graph=None, name="blobs", provenance=note)


def block_model(
    n_nodes: int = 300,
    n_classes: int = 3,
    *,
    degree: float | int = 8.0,
    homophily: float | int = 0.8,
    n_features: int = 16,
    separation: float | int = 2.0,
    seed: int = 0,
) -> NodeData:
    """Return a stochastic block model with Gaussian features, in time linear in its edges.

    Each edge joins two nodes of a class with probability ``homophily``, otherwise two classes.
    Repeated pairs are merged, so the mean degree of a small or dense graph is below ``degree``.

    Examples
    --------
    >>> data = block_model(1000, 4, seed=1)
    >>> data.n_nodes, data.n_classes, round(data.homophily, 1)
    (1000, 4, 0.8)
    """
    check_number("degree", degree, low=0)
    check_number("homophily", homophily, low=0, high=1)
    check_number("separation", separation, low=0)
    check_integer("n_classes", n_classes, low=1)
    check_integer("n_nodes", n_nodes, low=n_classes)
    check_integer("n_features", n_features, low=1)
    rng = np.random.default_rng(check_integer("seed", seed, low=0))
    labels = np.arange(n_nodes, dtype=np.int64) % n_classes
    centres = rng.normal(size=(n_classes, n_features)) * separation / np.sqrt(2 * n_features)
    noise = rng.standard_normal(size=(n_nodes, n_features), dtype=np.float32)
    features = sp.csr_matrix(centres[labels].astype(np.float32) + noise)
    n_drawn = round(n_nodes * degree / 2)
    source = (rng.random(n_drawn) * n_nodes).astype(np.int64)
    inside = rng.random(n_drawn) < homophily
    step = rng.integers(1, max(n_classes, 2), size=n_drawn)
    wanted = np.where(inside, labels[source], (labels[source] + step) % n_classes)
    target = np.empty(n_drawn, dtype=np.int64)
    for c in range(n_classes):  # class c has the nodes c, c + n_classes, ...
        rows, size = np.flatnonzero(wanted == c), len(range(c, n_nodes, n_classes))
        target[rows] = c + n_classes * (rng.random(rows.size) * size).astype(np.int64)
    graph = symmetric_from_pairs(source, target, n_nodes)
    note = {"generated": f"block model, homophily {homophily:g}, seed {seed}"}
    names = tuple(f"class {c}" for c in range(n_classes))
    return NodeData(features, labels, graph, names, name="block_model", provenance=note)
