"""Attributed graphs of any size, generated from a seed, for tests of speed and memory."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from glnn._utils import check_integer, check_number, did_you_mean
from glnn.data import NodeData
from glnn.data.node_data import symmetric_from_pairs, unique_codes
from glnn.exceptions import InputError

_MAX_DRAWS = 4_000_000  # draws at a time: bounds the memory
_MAX_PASSES = 60
_CLASS_DECAY = 0.5  # class sizes decay with this power of their rank
_SPECTRUM_DECAY = 0.5  # so do the deviations along the principal directions
_LEADING, _CENTRE_DECAY = 16, 0.25  # classes differ along the widest directions, as in real data


@dataclass(frozen=True, kw_only=True)
class GraphSize:
    """Size and difficulty of a generated graph.

    Links and features of the misfits follow another class than their label. They cannot be
    predicted, so the best accuracy is about ``1 - misfits``.
    """

    n_nodes: int
    n_edges: int  # undirected, distinct and without loops
    n_features: int = 128
    n_classes: int = 40
    homophily: float | int = 0.38  # expected share of edges inside a class
    misfits: float | int = 0.25  # share of nodes that follow another class
    separation: float | int = 4.6  # typical distance between two centres, in deviations
    power: float | int = 2.5  # exponent of the power law of the expected degrees
    train: float | int = 0.5  # share of training nodes
    val: float | int = 0.2  # share of validation nodes; all others are test nodes

    def __post_init__(self) -> None:
        check_integer("n_classes", self.n_classes, low=2)
        check_integer("n_nodes", self.n_nodes, low=2 * self.n_classes)
        check_integer("n_edges", self.n_edges, low=0)
        check_integer("n_features", self.n_features, low=1)
        check_number("separation", self.separation, low=0)
        check_number("power", self.power, low=2, open_low=True)
        for name in ("homophily", "misfits", "train", "val"):
            check_number(name, getattr(self, name), low=0, high=1)
        if self.train + self.val > 1:
            raise InputError(f"train + val must be at most 1, got {self.train + self.val:g}.")
        most = self.n_nodes * (self.n_nodes - 1) // 2
        if self.n_edges > most // 4:
            raise InputError(
                f"n_edges must be at most a quarter of the {most} pairs, got {self.n_edges}."
            )


# Sizes and splits of two published graphs; everything else about them is synthetic.
SIZES = {
    "arxiv-size": GraphSize(n_nodes=169_343, n_edges=1_166_243, train=0.537, val=0.176),
    "products-size": GraphSize(
        n_nodes=2_449_029,
        n_edges=61_859_140,
        n_features=100,
        n_classes=47,
        train=0.0803,
        val=0.0161,
    ),
}


def size_from_degree(n_nodes: int, degree: float | int = 10, **changes: float | int) -> GraphSize:
    """Return the size of a graph with a given mean degree.

    Examples
    --------
    >>> size_from_degree(1000, 8).n_edges
    4000
    """
    n_edges = round(check_integer("n_nodes", n_nodes, low=1) * degree / 2)
    return GraphSize(**{"n_nodes": n_nodes, "n_edges": n_edges, **changes})  # type: ignore[arg-type]


def resolve_size(name: str, **changes: float | int | None) -> GraphSize:
    """Return a size of :data:`SIZES` with some fields changed.

    For any other name ``n_nodes`` must be given; ``n_edges`` is then five a node by default.
    Changes that are ``None`` are ignored.

    Examples
    --------
    >>> resolve_size("arxiv-size", n_classes=10).n_nodes
    169343
    """
    given = {key: value for key, value in changes.items() if value is not None}
    if name in SIZES:
        return dataclasses.replace(SIZES[name], **given)  # type: ignore[arg-type]
    if "n_nodes" not in given:
        raise InputError(
            f"the size {name!r} must be one of {', '.join(SIZES)}, or come with a number of "
            f"nodes.{did_you_mean(name, SIZES)}"
        )
    given.setdefault("n_edges", 5 * int(given["n_nodes"]))
    return GraphSize(**given)  # type: ignore[arg-type]


def attributed_graph(size: GraphSize, seed: int = 0, *, name: str = "generated") -> NodeData:
    """Return a degree-corrected block model with features, in time and memory linear in its edges.

    Every node has a topic, which is its class unless the node is a misfit. The share of edges
    inside a topic is solved for the wanted homophily of the classes; ends of edges are drawn by
    weights with a heavy tail. Features are one Gaussian cloud for each topic. Their deviations
    decay over directions, centres differ along the widest ones, and a random rotation mixes all
    directions into every column.

    Examples
    --------
    >>> data = attributed_graph(size_from_degree(2000, 8, n_classes=5, n_features=16), seed=1)
    >>> data.n_nodes, data.n_edges, round(data.homophily, 1)
    (2000, 8000, 0.4)
    """
    rng = np.random.default_rng(check_integer("seed", seed, low=0))
    labels = _draw_labels(size, rng)
    topics = _draw_topics(labels, size, rng)
    graph = _draw_graph(labels, topics, size, rng)
    features = _draw_features(topics, size, rng)
    note = {"generated": f"degree-corrected block model with features, seed {seed}, {size}"}
    return NodeData(
        features,
        labels,
        graph,
        tuple(f"class {c}" for c in range(size.n_classes)),
        splits=_draw_split(size, rng),
        name=name,
        provenance=note,
    )


def _draw_labels(size: GraphSize, rng: np.random.Generator) -> np.ndarray:
    """Draw labels of classes of uneven size, each with at least two nodes."""
    share = np.arange(1, size.n_classes + 1) ** -_CLASS_DECAY
    counts = 2 + np.floor((size.n_nodes - 2 * size.n_classes) * share / share.sum()).astype(int)
    counts[0] += size.n_nodes - counts.sum()
    return rng.permutation(np.repeat(np.arange(size.n_classes, dtype=np.int64), counts))


def _draw_topics(labels: np.ndarray, size: GraphSize, rng: np.random.Generator) -> np.ndarray:
    """Return the topic of each node: its class, or for a misfit a random other class."""
    topics = labels.copy()
    misfits = rng.permutation(size.n_nodes)[: round(size.misfits * size.n_nodes)]
    step = rng.integers(1, size.n_classes, size=misfits.size)
    topics[misfits] = (labels[misfits] + step) % size.n_classes
    return topics


class _WeightedSampler:
    """Draws nodes by weight, from all nodes or from one topic, by search in cumulative sums."""

    def __init__(self, topics: np.ndarray, weight: np.ndarray) -> None:
        self.order = np.argsort(topics, kind="stable")
        self.steps = np.concatenate([[0.0], np.cumsum(weight[self.order])])
        ends = np.cumsum(np.bincount(topics))
        self.starts = self.steps[np.concatenate([[0], ends])]

    def draw(self, count: int, rng: np.random.Generator) -> np.ndarray:
        return self._lookup(rng.random(count) * self.steps[-1])

    def draw_from_topic(self, topic: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        low, high = self.starts[topic], self.starts[topic + 1]
        return self._lookup(low + rng.random(topic.size) * (high - low))

    def _lookup(self, height: np.ndarray) -> np.ndarray:
        place = np.searchsorted(self.steps, height, side="right") - 1
        return self.order[np.minimum(place, self.order.size - 1)]


def _draw_graph(
    labels: np.ndarray, topics: np.ndarray, size: GraphSize, rng: np.random.Generator
) -> sp.csr_matrix:
    tail = (1 - rng.random(size.n_nodes)) ** (-1 / (size.power - 1))
    weight = np.minimum(
        tail, np.sqrt(size.n_nodes)
    )  # a simple graph cannot have larger expected degrees
    sampler = _WeightedSampler(topics, weight)
    n_inside = round(_solve_topic_share(labels, topics, weight, size) * size.n_edges)

    def inside(count: int) -> tuple[np.ndarray, np.ndarray]:
        source = sampler.draw(count, rng)
        return source, sampler.draw_from_topic(topics[source], rng)

    def across(count: int) -> tuple[np.ndarray, np.ndarray]:
        source, target = sampler.draw(count, rng), sampler.draw(count, rng)
        apart = topics[source] != topics[target]
        return source[apart], target[apart]

    keys = np.concatenate(
        [
            _draw_distinct_pairs(inside, n_inside, size.n_nodes, rng),
            _draw_distinct_pairs(across, size.n_edges - n_inside, size.n_nodes, rng),
        ]
    )
    source, target = np.divmod(keys, size.n_nodes)
    return symmetric_from_pairs(source, target, size.n_nodes)


def _solve_topic_share(
    labels: np.ndarray, topics: np.ndarray, weight: np.ndarray, size: GraphSize
) -> float:
    """Return the share t of edges inside a topic that gives the homophily h of the classes.

    Edges inside a topic join one class with probability p, all others with probability q, so
    h = t·p + (1 − t)·q.
    """
    k = size.n_classes
    mass = np.bincount(topics * k + labels, weights=weight, minlength=k * k).reshape(k, k)
    topic, label = mass.sum(1), mass.sum(0)
    whole = topic.sum()
    filled = topic > 0
    inside = float(((mass[filled] ** 2).sum(1) / topic[filled]).sum() / whole)
    same_topic = float((topic**2).sum()) / whole**2
    same_both = float((mass**2).sum()) / whole**2
    across = (float((label**2).sum()) / whole**2 - same_both) / (1 - same_topic)
    share = (size.homophily - across) / (inside - across) if inside > across else -1.0
    if not 0 <= share <= 1:
        low, high = sorted((inside, across))
        raise InputError(
            f"homophily must lie in [{low:.3f}, {high:.3f}] with misfits {size.misfits:g} and "
            f"{k} classes, got {size.homophily:g}. Change homophily or misfits."
        )
    return share


def _draw_distinct_pairs(
    draw: Callable[[int], tuple[np.ndarray, np.ndarray]],
    count: int,
    n_nodes: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw until there are ``count`` distinct pairs; return them as keys ``low · n + high``."""
    keys = np.empty(0, np.int64)
    for _ in range(_MAX_PASSES):
        missing = count - keys.size
        if missing <= 0:
            break
        parts = [keys]
        for start in range(0, missing + missing // 8 + 16, _MAX_DRAWS):
            source, target = draw(min(_MAX_DRAWS, missing + missing // 8 + 16 - start))
            apart = source != target
            low, high = np.minimum(source, target)[apart], np.maximum(source, target)[apart]
            parts.append(low * n_nodes + high)
        keys = unique_codes(np.concatenate(parts))
    if keys.size < count:
        raise InputError(
            f"n_edges must be small enough for distinct pairs of such classes, got room for "
            f"{keys.size} of {count} edges of one kind. Ask for fewer edges or more nodes."
        )
    dropped = rng.choice(keys.size, keys.size - count, replace=False, shuffle=False)
    return np.delete(keys, dropped)


def _draw_features(topics: np.ndarray, size: GraphSize, rng: np.random.Generator) -> sp.csr_matrix:
    """Draw dense features in blocks of rows; return them as CSR."""
    n_nodes, width = topics.size, size.n_features
    spectrum = (np.arange(1, width + 1) ** -_SPECTRUM_DECAY).astype(np.float32)
    rotation = np.linalg.qr(rng.standard_normal((width, width)))[0].astype(np.float32)
    lead = np.where(np.arange(width) < _LEADING, np.arange(1, width + 1) ** -_CENTRE_DECAY, 0.0)
    lead *= size.separation / np.sqrt(2 * (lead**2).sum())
    centres = (rng.standard_normal((size.n_classes, width)) * lead).astype(np.float32)
    values = np.empty((n_nodes, width), dtype=np.float32)
    height = max(1, _MAX_DRAWS // width)
    for first in range(0, n_nodes, height):
        rows = slice(first, min(first + height, n_nodes))
        noise = rng.standard_normal((rows.stop - first, width), dtype=np.float32)
        values[rows] = ((noise + centres[topics[rows]]) * spectrum) @ rotation
    columns = np.tile(np.arange(width, dtype=np.int32), n_nodes)
    starts = np.arange(0, n_nodes * width + 1, width)
    return sp.csr_matrix((values.ravel(), columns, starts), shape=(n_nodes, width))


def _draw_split(size: GraphSize, rng: np.random.Generator) -> dict[str, np.ndarray]:
    order = rng.permutation(size.n_nodes)
    n_train, n_val = round(size.train * size.n_nodes), round(size.val * size.n_nodes)
    train, val, test = np.split(order, [n_train, n_train + n_val])
    return {"train": train, "val": val, "test": test}


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
