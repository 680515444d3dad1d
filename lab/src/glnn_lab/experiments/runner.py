"""Run a grid of cells in parallel; a run that was killed goes on where it stopped."""

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
from glnn_lab.experiments.datasets import open_cell
from glnn_lab.experiments.machine import PeakMemory, n_threads, versions
from glnn_lab.experiments.methods import Outcome, get_method
from glnn_lab.experiments.records import Record, ResultStore, in_order
from glnn_lab.experiments.snapshots import watch_graph

# --- orphans: Workers that end with the process that started them, even if that was killed

_EVERY = 0.5
"""Seconds between two looks at the parent."""


def end_with(parent: int) -> bool:
    """Let this process end when ``parent`` does, if it is a child of it; return whether it is.

    A killed process cannot tell its workers: without this they would finish their cells, and a
    second run would share the cores with them.

    Examples
    --------
    >>> import os
    >>> end_with(os.getpid())  # nobody is a child of oneself
    False
    """
    if os.getppid() != parent:
        return False
    _watch(parent)
    return True


@functools.cache
def _watch(parent: int) -> None:
    threading.Thread(target=_wait_for_end, args=(parent,), daemon=True).start()


def _wait_for_end(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_EVERY)
    os._exit(1)


# --- measure: Run one cell and write down everything that came out

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


# --- runner: Run a grid of cells in parallel; a run that was killed goes on where it stopped

_CELLS_AT_ONCE = 4
"""Cells a worker, handed out together where a backend gives back whole batches only."""


@dataclass(frozen=True)
class GridProgress:
    """Where a grid stands: finished cells of all, and the one that has just come in."""

    n_done: int
    n_cells: int
    record: Record | None = None


Watch = Callable[[GridProgress], None]


def run_grid(
    cells: Sequence[Cell],
    out: str | Path,
    *,
    jobs: int = 1,
    resume: bool = True,
    progress: Watch | None = None,
) -> list[Record]:
    """Run the cells that have no result yet; return the records of all, in the cells' order.

    Parameters
    ----------
    cells
        What to run; a cell that is there twice runs once.
    out
        Folder of ``results.jsonl``.
    jobs
        Processes at once; -1 takes all cores. Inside ``joblib.parallel_config`` that backend is
        used, a cluster's for instance.
    resume
        Keep what the folder has; ``False`` runs these cells again and leaves others alone.
    progress
        Called at the start and after each cell.

    Returns
    -------
    list of dict
        As :func:`~glnn_lab.experiments.runner.run_cell` makes them. A failed cell has ``error``
        in place of its result; it is not in the file, and the next run tries it again.
    """
    if jobs != -1:
        check_integer("jobs", jobs, low=1)
    grid = list(dict.fromkeys(cells))
    if not grid:
        raise InputError("a grid must have at least one cell, got none.")
    store = ResultStore(out)
    with store.only_writer(), warnings.catch_warnings():
        # joblib replaces a worker that has grown; the cells that follow are none the worse for it
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs")
        ids = [cell.id for cell in grid]
        old = set() if resume else set(ids)
        found = {i: record for i, record in store.read().items() if i not in old}
        store.rewrite(found.values())  # without what a kill has torn
        todo = [cell for cell, i in zip(grid, ids) if i not in found]
        n_done, failed = len(grid) - len(todo), {}
        _tell(progress, GridProgress(n_done, len(grid)))
        for record in _records(todo, jobs):
            if "error" in record:
                failed[record["id"]] = record
            else:
                store.append(record)
                found[record["id"]] = record
            n_done += 1
            _tell(progress, GridProgress(n_done, len(grid), record))
        store.rewrite(in_order(found, ids))
    return [found[i] if i in found else failed[i] for i in ids]


def attempt(cell: Cell, parent: int | None = None) -> Record:
    """Run a cell; a failure becomes a record, so that the others go on.

    A worker that ``parent`` has started ends with it.
    """
    if parent is not None:
        end_with(parent)
    try:
        return run_cell(cell)
    except Exception as error:  # one broken cell must not cost the other thousand
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return {"id": cell.id, **cell.to_dict(), "error": text[:500]}


def _records(cells: Sequence[Cell], jobs: int) -> Iterator[Record]:
    """Yield records as they finish, in any order."""
    calls = [delayed(attempt)(cell, os.getpid()) for cell in cells]
    backend, _ = get_active_backend()
    if not calls:
        return
    if getattr(backend, "supports_return_generator", False):
        yield from Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)(calls)
        return
    width = _CELLS_AT_ONCE * max(1, backend.effective_n_jobs(-1))
    for start in range(0, len(calls), width):
        finished: list[Any] = Parallel(n_jobs=jobs)(calls[start : start + width])
        yield from finished


def _tell(progress: Watch | None, event: GridProgress) -> None:
    if progress is not None:
        progress(event)


# --- plan: What a grid would run and how long that may take, from the CPU times of earlier runs

Place = tuple[str, str]
"""A method and a data set."""


@dataclass(frozen=True)
class Plan:
    """How many cells a method has on a data set, how many are finished, and expected seconds.

    ``seconds`` are those of all cells that have a time to go by, ``seconds_left`` those of
    unfinished ones among them; ``n_unknown`` counts unfinished cells without any.
    """

    n_cells: Mapping[Place, int]
    n_done: Mapping[Place, int]
    seconds: Mapping[Place, float]
    seconds_left: float
    n_unknown: int

    @property
    def datasets(self) -> list[str]:
        """Data sets in the order of the cells."""
        return list(dict.fromkeys(dataset for _, dataset in self.n_cells))

    @property
    def methods(self) -> list[str]:
        """Methods in the order of the cells."""
        return list(dict.fromkeys(method for method, _ in self.n_cells))


def make_plan(cells: Sequence[Cell], records: Iterable[Mapping[str, Any]]) -> Plan:
    """Count cells, and expect of each what like ones took.

    Like ones are, in this order: the cell itself, the same method, data set and settings, the
    same method and data set.
    """
    times = _Times(records)
    n_cells: Counter[Place] = Counter()
    n_done: Counter[Place] = Counter()
    seconds: dict[Place, float] = defaultdict(float)
    left, n_unknown = 0.0, 0
    for cell in dict.fromkeys(cells):
        place, is_done = (cell.method, cell.dataset), cell.id in times.finished
        expected = times.expected(cell)
        n_cells[place] += 1
        n_done[place] += is_done
        seconds[place] += expected or 0.0
        left += 0.0 if is_done else expected or 0.0
        n_unknown += expected is None
    return Plan(n_cells, n_done, seconds, left, n_unknown)


class _Times:
    """Seconds of finished cells, by how much they have in common with another."""

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

    def expected(self, cell: Cell) -> float | None:
        if cell.id in self.finished:
            return self.finished[cell.id]
        for key in _keys(cell):
            if key in self._like:
                return sum(self._like[key]) / len(self._like[key])
        return None


def _keys(cell: Cell) -> list[Any]:
    settings = (*cell.settings.items(), cell.probe, cell.perturbation == "no-graph")
    return [(cell.method, cell.dataset, settings), (cell.method, cell.dataset)]
