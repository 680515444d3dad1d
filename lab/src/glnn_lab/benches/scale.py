"""One fit on a graph of a published size, some of its edges replaced by random ones."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from glnn._validation import check_choice, check_integer, check_number
from glnn.data import NodeData, Split
from glnn.data.scale import GraphSize, attributed_graph, named_size
from glnn.estimator import GLNNClassifier
from glnn_lab.benches.child import MemoryAbove, in_fresh_process, timed
from glnn_lab.benches.contenders import engine_gcn
from glnn_lab.experiments.machine import machine_facts, versions
from glnn_lab.experiments.methods import get_method, masked_labels
from glnn_lab.experiments.perturb import rewire_edges

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
