"""Run a grid of cells in parallel; a run that was killed goes on where it stopped."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

from glnn._validation import check_integer
from glnn.exceptions import InputError
from glnn_lab.experiments.cells import Cell
from glnn_lab.experiments.measure import run_cell
from glnn_lab.experiments.orphans import end_with
from glnn_lab.experiments.store import Record, ResultStore, in_order

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
        As :func:`~glnn_lab.experiments.measure.run_cell` makes them. A failed cell has ``error``
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
