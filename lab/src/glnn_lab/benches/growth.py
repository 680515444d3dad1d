"""How time and memory grow with the number of nodes, at fixed mean degree and features."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from glnn._utils import check_choice, check_integer, check_number
from glnn.data import NodeData, Split
from glnn.data.synthetic import GraphSize, attributed_graph, named_size, sized
from glnn.engine.settings import PRESETS
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.solver import learn_graph, nearest
from glnn.solver.signals import FeatureSignal
from glnn_lab.benches.child import MemoryAbove, in_fresh_process, timed
from glnn_lab.benches.contenders import engine_gcn
from glnn_lab.experiments.machine import machine_facts, versions
from glnn_lab.experiments.methods import get_method, masked_labels
from glnn_lab.experiments.perturb import rewire_edges

# --- growth: How time and memory grow with the number of nodes, at fixed mean degree and features

DEGREE, N_FEATURES, N_CLASSES, N_NEIGHBORS = 10, 128, 10, 20
SIZES = (10_000, 20_000, 50_000, 100_000, 200_000)
_TINY = 200


def _search(method: str) -> Callable[[NodeData, int], None]:
    def run(data: NodeData, n_epochs: int) -> None:
        features = data.features.toarray()
        signal = FeatureSignal.fit("l2", features).transform(features)
        nearest(signal, N_NEIGHBORS, search=method)  # type: ignore[arg-type]

    return run


def _graph_step(data: NodeData, n_epochs: int) -> None:
    graph = PRESETS["default"].graph
    learn_graph(
        data.features.toarray(),
        data.graph,
        weights=graph.weights,
        support=graph.support,
        n_candidates=graph.n_candidates,
        search="clusters",
    )


def _fit(data: NodeData, n_epochs: int) -> None:
    y = data.labels.copy()
    y[data.splits["test"]] = -1
    model = GLNNClassifier(random_state=0, n_epochs=n_epochs, calibrate=None)
    model.fit(data.features.toarray(), y, data.graph, data.splits["val"])


TASKS: dict[str, tuple[str, Callable[[NodeData, int], None]]] = {
    "search-clusters": ("candidate search, clusters", _search("clusters")),
    "search-faiss": ("candidate search, FAISS", _search("faiss")),
    "search-exact": ("candidate search, exact", _search("exact")),
    "learn-graph": ("learn_graph, support candidates", _graph_step),
    "fit": ("whole fit, preset default", _fit),
}
"""What grows: its words, and how it runs."""


def measure_task(task: str, n_nodes: int, n_epochs: int) -> dict[str, Any]:
    """Return time and peak memory of one task on a made-up graph, its data included."""
    _, run = TASKS[check_choice("task", task, TASKS)]
    run(grown_data(_TINY), 1)
    memory = MemoryAbove()
    data = grown_data(n_nodes)
    memory.restart()  # making the data is not what is measured
    _, measured = timed(lambda: run(data, n_epochs))
    return {
        "seconds": round(measured.seconds, 3),
        "cpu_seconds": round(measured.cpu_seconds, 3),
        "peak_memory_mb": memory.megabytes(),
    }


def grown_data(n_nodes: int) -> NodeData:
    """Return a made-up graph with so many nodes."""
    return attributed_graph(sized(n_nodes, DEGREE, n_features=N_FEATURES, n_classes=N_CLASSES))


def run_growth(
    sizes: Sequence[int],
    *,
    tasks: Sequence[str] = tuple(TASKS),
    threads: int,
    n_epochs: int = 10,
    exact_up_to: int = 100_000,
    watch: Callable[[str], None] | None = None,
    keep: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Measure each task at each size, each in a process of its own, and fit the exponents.

    Parameters
    ----------
    sizes
        Numbers of nodes, at least two.
    n_epochs
        Epochs of each classifier step of the whole fit.
    exact_up_to
        Larger sizes are left out of the exact search.
    """
    counts = sorted({check_integer("sizes", size, low=_TINY) for size in sizes})
    if len(counts) < 2:
        raise InputError("growth needs at least two sizes, got fewer.")
    rows: list[dict[str, Any]] = []
    result: dict[str, Any] = {
        "threads": check_integer("threads", threads, low=1),
        "degree": DEGREE,
        "n_features": N_FEATURES,
        "n_epochs": check_integer("n_epochs", n_epochs, low=1),
        "machine": machine_facts(),
        "versions": versions(),
        "rows": rows,
    }
    for size in counts:
        for task in tasks:
            check_choice("task", task, TASKS)
            if task == "search-exact" and size > exact_up_to:
                continue
            if watch is not None:
                watch(f"{size:,} nodes: {TASKS[task][0]}")
            job: dict[str, Any] = {"task": task, "n_nodes": size, "n_epochs": n_epochs}
            rows.append({**job, **in_fresh_process("growth", threads, **job)})
            result["exponents"] = exponents(rows)
            if keep is not None:
                keep(result)
    return result


def exponents(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the slopes of time and memory over nodes in logarithms, task by task.

    Examples
    --------
    >>> rows = [{"task": "fit", "n_nodes": n, "seconds": 2.0 * n**1.5} for n in (10, 100)]
    >>> round(exponents(rows)["fit"]["seconds"], 6)
    1.5
    """
    found: dict[str, dict[str, float]] = {}
    for task in dict.fromkeys(row["task"] for row in rows):
        mine = [row for row in rows if row["task"] == task]
        slopes = {key: slope for key in _KEYS if (slope := _slope(mine, key)) is not None}
        if slopes:
            found[task] = slopes
    return found


_KEYS = ("seconds", "cpu_seconds", "peak_memory_mb")


def _slope(rows: Sequence[dict[str, Any]], key: str) -> float | None:
    points = [(row["n_nodes"], row[key]) for row in rows if row.get(key, 0) > 0]
    if len(points) < 2:
        return None
    x, y = np.log(np.array(points, dtype=float)).T
    return float(np.polyfit(x, y, 1)[0])


# --- scale: One fit on a graph of a published size, some of its edges replaced by random ones

METHODS = {
    "glnn-default": "GLNN, preset default",
    "glnn-gcn": "GLNN, preset default, GCN head",
    "own-gcn": "plain GCN, our engine",
    "linear": "logistic regression on the features",
}
"""What is fitted, and its words."""


def measure_fit(
    method: str, size: str, n_nodes: int | None, replaced: float, n_epochs: int | None, seed: int
) -> dict[str, Any]:
    """Return time, peak memory and accuracy of one fit; the data count as memory, not as time."""
    check_choice("method", method, METHODS)
    _run(method, *_open("tiny", 400, replaced, 0), 2, 0)
    memory = MemoryAbove()
    data, split = _open(size, n_nodes, replaced, seed)
    data_mb = memory.restart()
    found, measured = timed(lambda: _run(method, data, split, n_epochs, seed))
    classes, ran, choices = found
    return {
        "n_nodes": data.n_nodes,
        "n_edges": data.n_edges,
        "n_epochs": ran,
        "choices": choices,
        "accuracy": float((classes == data.labels)[split.test].mean()),
        "seconds": round(measured.seconds, 2),
        "cpu_seconds": round(measured.cpu_seconds, 2),
        "data_mb": data_mb,
        "peak_memory_mb": memory.megabytes(),
    }


def _open(name: str, n_nodes: int | None, replaced: float, seed: int) -> tuple[NodeData, Split]:
    """Return the graph; fewer nodes than the published size keep its mean degree."""
    size = _size(name, n_nodes)
    data = rewire_edges(attributed_graph(size, seed, name=name), replaced, seed)
    return data, Split(**data.splits, name="generated", seed=seed, dataset=name)


def _size(name: str, n_nodes: int | None) -> GraphSize:
    if n_nodes is None or name == "tiny":
        return named_size(name, n_nodes=n_nodes)
    full = named_size(name)
    n_edges = round(check_integer("n_nodes", n_nodes, low=1) * full.n_edges / full.n_nodes)
    return named_size(name, n_nodes=n_nodes, n_edges=n_edges)


def _run(
    method: str, data: NodeData, split: Split, n_epochs: int | None, seed: int
) -> tuple[Any, int, dict[str, Any]]:
    if method == "own-gcn":
        ran = engine_gcn(data, split, seed, n_epochs)
        return ran.classes, ran.n_epochs, {}
    if method == "linear":
        outcome = get_method("logistic_regression").run(data, split, seed, {})
        return outcome.classes, outcome.n_epochs, {}
    head: Literal["gcn"] | None = "gcn" if method == "glnn-gcn" else None
    model = GLNNClassifier(head=head, random_state=seed, n_epochs=n_epochs, calibrate=None)
    model.fit(data.features, masked_labels(data, split), data.graph, split.val)
    return model.transduction_, model.n_iter_, dict(model.choices_)


def run_scale(
    size: str,
    *,
    n_nodes: int | None = None,
    replaced: float | int = 0.3,
    methods: Sequence[str] = tuple(METHODS),
    n_epochs: int | None = None,
    threads: int,
    seed: int = 0,
    watch: Callable[[str], None] | None = None,
    keep: Callable[[dict[str, Any]], None] | None = None,
) -> dict[str, Any]:
    """Fit each method on the same graph, each in a process of its own.

    Parameters
    ----------
    size, n_nodes
        ``arxiv-size`` or ``products-size``, perhaps with fewer nodes at the same mean degree.
    replaced
        Share of edges replaced by random ones.
    n_epochs
        Epochs of each classifier step; ``None``: each method's own.
    """
    _size(size, n_nodes)
    check_number("replaced", replaced, low=0, high=1)
    if n_epochs is not None:
        check_integer("n_epochs", n_epochs, low=1)
    rows: list[dict[str, Any]] = []
    result: dict[str, Any] = {
        "size": size,
        "replaced": replaced,
        "threads": check_integer("threads", threads, low=1),
        "seed": check_integer("seed", seed, low=0),
        "machine": machine_facts(),
        "versions": versions(),
        "rows": rows,
    }
    common: dict[str, Any] = {
        "size": size,
        "n_nodes": n_nodes,
        "replaced": replaced,
        "n_epochs": n_epochs,
    }
    for method in methods:
        check_choice("method", method, METHODS)
        if watch is not None:
            watch(f"{size}: {METHODS[method]}")
        found = in_fresh_process("scale", threads, method=method, seed=seed, **common)
        rows.append({"name": method, "title": METHODS[method], **found})
        if keep is not None:
            keep(result)
    return result
