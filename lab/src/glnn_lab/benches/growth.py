"""Growth of time and memory with the number of nodes, and fits of graphs of published sizes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glnn._utils import check_choice, check_integer, check_number
from glnn.data import NodeData, Split
from glnn.engine.settings import PRESETS
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.graph.pairs import ShardedRows, as_sharded_rows
from glnn.solver.candidates import search_exact
from glnn.solver.clusters import search_clusters
from glnn.solver.learn import GraphRequest, solve_graph
from glnn.solver.signals import FeatureSignal
from glnn_lab.benches.child import ExtraMemory, run_in_process, time_call
from glnn_lab.benches.contenders import engine_gcn
from glnn_lab.experiments.machine import machine_facts, software_versions
from glnn_lab.experiments.methods import get_method, visible_labels
from glnn_lab.experiments.perturb import rewire_edges
from glnn_lab.experiments.scale import GraphSize, attributed_graph, resolve_size, size_from_degree

DEGREE, N_FEATURES, N_CLASSES, N_NEIGHBORS = 10, 128, 10, 20
SIZES = (10_000, 20_000, 50_000, 100_000, 200_000)
_TINY = 200


def _search(search: Callable[[ShardedRows, int], Any]) -> Callable[[NodeData, int], None]:
    def run(data: NodeData, n_epochs: int) -> None:
        features = data.features.toarray()
        signal = FeatureSignal.fit("l2", features).transform(features)
        search(as_sharded_rows(signal), N_NEIGHBORS)

    return run


def _graph_step(data: NodeData, n_epochs: int) -> None:
    graph = PRESETS["default"].graph
    request = GraphRequest(
        data.features.toarray(),
        data.graph,
        weights=graph.weights,
        support=graph.support,
        n_candidates=graph.n_candidates,
    )
    solve_graph(request)


def _fit(data: NodeData, n_epochs: int) -> None:
    y = data.labels.copy()
    y[data.splits["test"]] = -1
    model = GLNNClassifier(random_state=0, n_epochs=n_epochs, calibrate=None)
    model.fit(data.features.toarray(), y, data.graph, data.splits["val"])


# title and function of each task
TASKS: dict[str, tuple[str, Callable[[NodeData, int], None]]] = {
    "search-clusters": ("candidate search, clusters", _search(search_clusters)),
    "search-exact": ("candidate search, exact", _search(search_exact)),
    "learn-graph": ("learn_graph, support candidates", _graph_step),
    "fit": ("whole fit, preset default", _fit),
}


def measure_task(task: str, n_nodes: int, n_epochs: int) -> dict[str, Any]:
    """Return time and peak memory (with the data) of one task on a generated graph."""
    _, run = TASKS[check_choice("task", task, TASKS)]
    run(make_data(_TINY), 1)
    memory = ExtraMemory()
    data = make_data(n_nodes)
    memory.restart()  # without the memory used to generate the data
    _, measured = time_call(lambda: run(data, n_epochs))
    return {
        "seconds": round(measured.seconds, 3),
        "cpu_seconds": round(measured.cpu_seconds, 3),
        "peak_memory_mb": memory.megabytes(),
    }


def make_data(n_nodes: int) -> NodeData:
    """Return a generated graph with ``n_nodes`` nodes."""
    return attributed_graph(
        size_from_degree(n_nodes, DEGREE, n_features=N_FEATURES, n_classes=N_CLASSES)
    )


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
    """Measure each task at each size, each in a separate process, and fit the exponents.

    ``n_epochs`` are the epochs of each classifier step of the whole fit. Sizes above
    ``exact_up_to`` are left out of the exact search.
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
        "versions": software_versions(),
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
            rows.append({**job, **run_in_process("growth", threads, **job)})
            result["exponents"] = exponents(rows)
            if keep is not None:
                keep(result)
    return result


def exponents(rows: Sequence[dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the slopes of log time and log memory over log nodes, by task.

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


# Fits of graphs of published sizes, with a share of the edges replaced at random

# titles of the methods
METHODS = {
    "glnn-default": "GLNN, preset default",
    "glnn-gcn": "GLNN, preset default, GCN head",
    "own-gcn": "plain GCN, our engine",
    "linear": "logistic regression on the features",
}


def measure_fit(
    method: str, size: str, n_nodes: int | None, replaced: float, n_epochs: int | None, seed: int
) -> dict[str, Any]:
    """Return time, peak memory (with the data) and accuracy of one fit."""
    check_choice("method", method, METHODS)
    _run(method, *_open("tiny", 400, replaced, 0), 2, 0)
    memory = ExtraMemory()
    data, split = _open(size, n_nodes, replaced, seed)
    data_mb = memory.restart()
    found, measured = time_call(lambda: _run(method, data, split, n_epochs, seed))
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
    """Return the graph and its split; with fewer nodes the mean degree stays the same."""
    size = _size(name, n_nodes)
    data = rewire_edges(attributed_graph(size, seed, name=name), replaced, seed)
    return data, Split(**data.splits, name="generated", seed=seed, dataset=name)


def _size(name: str, n_nodes: int | None) -> GraphSize:
    if n_nodes is None or name == "tiny":
        return resolve_size(name, n_nodes=n_nodes)
    full = resolve_size(name)
    n_edges = round(check_integer("n_nodes", n_nodes, low=1) * full.n_edges / full.n_nodes)
    return resolve_size(name, n_nodes=n_nodes, n_edges=n_edges)


def _run(
    method: str, data: NodeData, split: Split, n_epochs: int | None, seed: int
) -> tuple[Any, int, dict[str, Any]]:
    if method == "own-gcn":
        ran = engine_gcn(data, split, seed, n_epochs)
        return ran.classes, ran.n_epochs, {}
    if method == "linear":
        outcome = get_method("logistic_regression").run(data, split, seed, {})
        return outcome.classes, outcome.n_epochs, {}
    settings = {"head": "gcn"} if method == "glnn-gcn" else None
    model = GLNNClassifier(n_epochs=n_epochs, calibrate=None, random_state=seed, settings=settings)
    model.fit(data.features, visible_labels(data, split), data.graph, split.val)
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
    """Fit each method on the same graph, each in a separate process.

    ``size`` is ``arxiv-size`` or ``products-size``; with ``n_nodes`` the graph has fewer nodes at
    the same mean degree. ``replaced`` is the share of edges replaced by random ones, ``n_epochs``
    the epochs of each classifier step (``None``: each method's own).
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
        "versions": software_versions(),
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
        found = run_in_process("scale", threads, method=method, seed=seed, **common)
        rows.append({"name": method, "title": METHODS[method], **found})
        if keep is not None:
            keep(result)
    return result
