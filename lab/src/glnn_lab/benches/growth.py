"""How time and memory grow with the number of nodes, at fixed mean degree and features."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glnn._validation import check_choice, check_integer
from glnn.data import NodeData
from glnn.data.scale import attributed_graph, sized
from glnn.engine.presets import PRESETS
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError
from glnn.solver import learn_graph, nearest
from glnn.solver.signals import FeatureSignal
from glnn_lab.benches.child import MemoryAbove, in_fresh_process, timed
from glnn_lab.experiments.machine import machine_facts, versions

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
