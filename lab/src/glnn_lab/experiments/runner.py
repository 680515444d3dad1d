"""Run a grid of cells in parallel; a killed run resumes with the unfinished cells."""

import functools
import os
import threading
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

from glnn._utils import check_integer
from glnn.data import NodeData, Split
from glnn.exceptions import InputError
from glnn_lab.experiments.cells import Cell
from glnn_lab.experiments.datasets import load_cell
from glnn_lab.experiments.machine import PeakMemory, software_versions, use_threads
from glnn_lab.experiments.methods import Outcome, get_method
from glnn_lab.experiments.records import Record, ResultStore, sort_records
from glnn_lab.experiments.snapshots import record_graphs

# Workers exit with their parent

_POLL_SECONDS = 0.5  # between two checks of the parent


def exit_with_parent(parent: int) -> bool:
    """Exit when ``parent`` exits, if this process is its child; return whether it is.

    Without this the workers of a killed process would finish their cells while a second run is
    already using the cores.

    Examples
    --------
    >>> import os
    >>> exit_with_parent(os.getpid())  # a process is not its own child
    False
    """
    if os.getppid() != parent:
        return False
    _start_watcher(parent)
    return True


@functools.cache
def _start_watcher(parent: int) -> None:
    threading.Thread(target=_wait_for_parent, args=(parent,), daemon=True).start()


def _wait_for_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_POLL_SECONDS)
    os._exit(1)


# One cell

# keys of a record that differ from run to run; all others are identical
VARYING_KEYS = ("seconds", "cpu_seconds", "peak_memory_mb", "finished")


def run_cell(cell: Cell) -> dict[str, Any]:
    """Run a cell on one thread; the same cell always gives the same accuracy.

    The record has ``id`` and every field of the cell; ``accuracy`` on the test nodes,
    ``validation_accuracy`` (``None`` without validation nodes), ``n_epochs`` over all rounds, the
    automatic ``choices`` of the fit, ``n_train`` and ``n_test``, ``versions``; ``seconds`` and
    ``cpu_seconds`` of the fit, ``peak_memory_mb`` of the process, ``finished`` as seconds since
    1970. A cell with the probe ``adjacency`` also has ``snapshots``.
    """
    with use_threads(1):
        data, split = load_cell(cell)
        memory = PeakMemory()
        started, cpu_started = time.perf_counter(), time.process_time()
        looked: dict[str, Any] = {}
        if cell.probe == "adjacency":
            outcome, looked["snapshots"] = record_graphs(cell, data, split)
        else:
            outcome = _run(cell, data, split)
        seconds = time.perf_counter() - started
        cpu_seconds = time.process_time() - cpu_started
    return {
        "id": cell.id,
        **cell.to_dict(),
        **_scores(outcome, data, split),
        **looked,
        "versions": software_versions(),
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


# A grid of cells

_CELLS_PER_WORKER = 4  # cells per batch for backends that return whole batches only


@dataclass(frozen=True)
class GridProgress:
    """Progress of a grid: the number of finished cells, and the last record."""

    n_done: int
    n_cells: int
    record: Record | None = None


ProgressCallback = Callable[[GridProgress], None]


def run_grid(
    cells: Sequence[Cell],
    out: str | Path,
    *,
    jobs: int = 1,
    resume: bool = True,
    progress: ProgressCallback | None = None,
) -> list[Record]:
    """Run the cells without a result; return the records of all cells, in their order.

    ``out`` is the folder of ``results.jsonl``. A backend set by ``joblib.parallel_config``, such as
    that of a cluster, is used. With ``resume=False`` these cells run again, other records stay.
    A failed cell has ``error`` instead of a result; it is not written, and the next run tries it
    again.
    """
    if jobs != -1:
        check_integer("jobs", jobs, low=1)
    grid = list(dict.fromkeys(cells))
    if not grid:
        raise InputError("a grid must have at least one cell, got none.")
    store = ResultStore(out)
    with store.lock(), warnings.catch_warnings():
        # joblib restarts workers that use much memory, which does not affect the cells
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
        ids = [cell.id for cell in grid]
        old = set() if resume else set(ids)
        found = {i: record for i, record in store.read().items() if i not in old}
        store.rewrite(found.values())  # without damaged lines
        todo = [cell for cell, i in zip(grid, ids) if i not in found]
        n_done, failed = len(grid) - len(todo), {}
        _notify(progress, GridProgress(n_done, len(grid)))
        for record in _records(todo, jobs):
            if "error" in record:
                failed[record["id"]] = record
            else:
                store.append(record)
                found[record["id"]] = record
            n_done += 1
            _notify(progress, GridProgress(n_done, len(grid), record))
        store.rewrite(sort_records(found, ids))
    return [found[i] if i in found else failed[i] for i in ids]


def try_cell(cell: Cell, parent: int | None = None) -> Record:
    """Run a cell; an error becomes a record, so that the other cells still run.

    A worker started by ``parent`` exits with it.
    """
    if parent is not None:
        exit_with_parent(parent)
    try:
        return run_cell(cell)
    except Exception as error:  # one failing cell must not stop the grid
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return {"id": cell.id, **cell.to_dict(), "error": text[:500]}


def _records(cells: Sequence[Cell], jobs: int) -> Iterator[Record]:
    """Yield records as they finish, in any order."""
    calls = [delayed(try_cell)(cell, os.getpid()) for cell in cells]
    backend, _ = get_active_backend()
    if not calls:
        return
    if getattr(backend, "supports_return_generator", False):
        yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(calls)
        return
    width = _CELLS_PER_WORKER * max(1, backend.effective_n_jobs(-1))
    for start in range(0, len(calls), width):
        finished: list[Any] = Parallel(n_jobs=jobs)(calls[start : start + width])
        yield from finished


def _notify(progress: ProgressCallback | None, event: GridProgress) -> None:
    if progress is not None:
        progress(event)


# Plan: the cells to run and their expected time

MethodOnDataset = tuple[str, str]  # names of a method and a data set


@dataclass(frozen=True)
class Plan:
    """The number of cells per method and data set, and their expected seconds."""

    n_cells: Mapping[MethodOnDataset, int]
    n_done: Mapping[MethodOnDataset, int]
    seconds: Mapping[MethodOnDataset, float]  # of all cells with a known or estimated time
    seconds_left: float  # of the unfinished ones among them
    n_unknown: int  # unfinished cells without an estimate

    @property
    def methods(self) -> list[str]:
        """Methods in the order of the cells."""
        return list(dict.fromkeys(method for method, _ in self.n_cells))


def make_plan(cells: Sequence[Cell], records: Iterable[Mapping[str, Any]]) -> Plan:
    """Count the cells and estimate their seconds from earlier records.

    The estimate comes from the first of these with a record: the cell itself; cells of the same
    method, data set and settings; cells of the same method and data set.
    """
    times = _Times(records)
    n_cells: Counter[MethodOnDataset] = Counter()
    n_done: Counter[MethodOnDataset] = Counter()
    seconds: dict[MethodOnDataset, float] = defaultdict(float)
    left, n_unknown = 0.0, 0
    for cell in dict.fromkeys(cells):
        place, is_done = (cell.method, cell.dataset), cell.id in times.finished
        expected = times.estimate(cell)
        n_cells[place] += 1
        n_done[place] += is_done
        seconds[place] += expected or 0.0
        left += 0.0 if is_done else expected or 0.0
        n_unknown += expected is None
    return Plan(n_cells, n_done, seconds, left, n_unknown)


class _Times:
    """Seconds of finished cells, by id and by their common properties."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self.finished: dict[str, float] = {}
        self._like: dict[Any, list[float]] = defaultdict(list)
        for record in records:
            if "cpu_seconds" not in record:
                continue
            cell, seconds = Cell.from_dict(record), float(record["cpu_seconds"])
            self.finished[cell.id] = seconds
            for key in _keys(cell):
                self._like[key].append(seconds)

    def estimate(self, cell: Cell) -> float | None:
        if cell.id in self.finished:
            return self.finished[cell.id]
        for key in _keys(cell):
            if key in self._like:
                return sum(self._like[key]) / len(self._like[key])
        return None


def _keys(cell: Cell) -> list[Any]:
    settings = (*cell.settings.items(), cell.probe, cell.perturbation == "no-graph")
    return [(cell.method, cell.dataset, settings), (cell.method, cell.dataset)]
