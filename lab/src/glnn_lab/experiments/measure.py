"""Run one cell and write down everything that came out."""

import time
from typing import Any

import numpy as np

from glnn.data import NodeData, Split
from glnn_lab.experiments.cells import Cell
from glnn_lab.experiments.datasets import open_cell
from glnn_lab.experiments.machine import PeakMemory, n_threads, versions
from glnn_lab.experiments.methods import Outcome, get_method
from glnn_lab.experiments.snapshots import watch_graph

TIMES = ("seconds", "cpu_seconds", "peak_memory_mb", "finished")
"""Keys of a record that differ from run to run; all others repeat bit for bit."""


def run_cell(cell: Cell) -> dict[str, Any]:
    """Run a cell on one thread; the same cell always gives the same accuracy.

    Returns
    -------
    dict
        ``id`` and every field of the cell; ``accuracy`` on the test nodes,
        ``validation_accuracy`` (``None`` without validation nodes), ``n_epochs`` over all rounds,
        ``choices`` the fit made by itself, ``n_train`` and ``n_test``, ``versions``; ``seconds``
        and ``cpu_seconds`` of the fit, ``peak_memory_mb`` of the process, ``finished`` as seconds
        since 1970. A cell that looks at the graph has ``snapshots`` as well.
    """
    with n_threads(1):
        data, split = open_cell(cell)
        memory = PeakMemory()
        started, cpu_started = time.perf_counter(), time.process_time()
        looked: dict[str, Any] = {}
        if cell.probe == "adjacency":
            outcome, looked["snapshots"] = watch_graph(cell, data, split)
        else:
            outcome = _run(cell, data, split)
        seconds = time.perf_counter() - started
        cpu_seconds = time.process_time() - cpu_started
    return {
        "id": cell.id,
        **cell.to_dict(),
        **_scores(outcome, data, split),
        **looked,
        "versions": versions(),
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),
        "peak_memory_mb": round(memory.megabytes(), 1),
        "finished": round(time.time(), 1),
    }


def _run(cell: Cell, data: NodeData, split: Split) -> Outcome:
    return get_method(cell.method).run(data, split, cell.seed, cell.settings)


def _scores(outcome: Outcome, data: NodeData, split: Split) -> dict[str, Any]:
    right = outcome.classes == data.labels
    return {
        "accuracy": _mean(right[split.test]),
        "validation_accuracy": _mean(right[split.val]),
        "n_epochs": outcome.n_epochs,
        "choices": outcome.choices,
        "n_train": int(split.train.size),
        "n_test": int(split.test.size),
    }


def _mean(right: np.ndarray) -> float | None:
    return float(right.mean()) if right.size else None
