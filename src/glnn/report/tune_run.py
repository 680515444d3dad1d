"""Search for parameters on the data of a run, and read and write its files."""

import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from glnn._utils import limit_threads
from glnn.data.files import check_file
from glnn.data.table_files import write_frame
from glnn.engine.archive import read_record, write_record
from glnn.evaluation import evaluate
from glnn.quality.estimate import Evaluation
from glnn.report.results import Search
from glnn.report.sources import Source
from glnn.tuning import Trials, TunedClassifier

SETTINGS, STORAGE, TABLE = "tuning.json", "study.db", "trials.csv"
FORMAT = ("glnn settings", 3)  # kind and version of tuning.json


def run_tuning(
    source: Source,
    search: TunedClassifier,
    folder: Path,
    report_line: Callable[[str], None],
    *,
    nested: int,
    threads: int | None = None,
) -> tuple[Trials, Evaluation | None]:
    """Search for parameters, evaluate the search by nested folds, and write the results.

    Test labels are not used. ``folder`` gets ``tuning.json``, ``trials.csv`` and the storage, from
    which a search can be resumed. ``report_line`` is called with a line of text for each trial and
    each outer fold. With ``nested=0`` there is no nested estimate.
    """
    data, y = source.data, source.visible_labels
    chosen = source.split.val if source.split.val.size else None

    def on_trial(number: int, value: float, params: dict[str, Any]) -> None:
        shown = ", ".join(f"{name} {part:.3g}" for name, part in params.items())
        report_line(
            f"trial {number + 1:>3}  {search.goal} {value:.4f}  {shown or 'the preset as it is'}"
        )

    search.set_params(storage=folder / STORAGE, watch=on_trial)
    n_fits = search.n_trials * (search.folds if chosen is not None else 1)
    report_line(f"{n_fits} fits for the search, {nested * n_fits} for its nested estimate")
    estimate = None
    with limit_threads(data.n_nodes, threads):
        trials = search.search(data.features, y, data.graph, chosen)
        _write_files(folder, search, trials, None)
        if nested:
            search.set_params(watch=None)
            estimate = evaluate(
                data.features,
                y,
                data.graph,
                search,
                nested,
                validation=chosen,
                random_state=search.random_state,
                watch=report_line,
            )
            _write_files(folder, search, trials, estimate)
    return trials, estimate


@dataclass(frozen=True)
class TunedSettings:
    """What a search has found for a preset: the file ``tuning.json``."""

    preset: str
    params: Mapping[str, Any]  # of the best trial
    search: Search | None = None
    nested: Mapping[str, Any] | None = None  # the nested estimate, as in metrics.json


def _write_files(
    folder: Path, tuned: TunedClassifier, trials: Trials, estimate: Evaluation | None
) -> None:
    goal, rows = str(tuned.goal), trials.table
    names = dict.fromkeys(name for row in rows for name in row if name not in ("trial", goal))
    params = {name: tuple(row.get(name) for row in rows) for name in names}
    verdict = "" if estimate is None else estimate.verdict.sentence
    search = Search(goal, tuple(row[goal] for row in rows), params, verdict)
    nested = None if estimate is None else estimate.to_dict()
    preset = str(tuned._with_params({}).preset)
    found = TunedSettings(preset, trials.params, search, nested)
    with closing(sqlite3.connect(folder / STORAGE, timeout=60)) as storage:
        storage.execute("BEGIN IMMEDIATE")  # a lock, as several workers write the same files
        for left in folder.glob(".*.part"):  # of a worker that was killed
            left.unlink(missing_ok=True)
        write_frame(folder / TABLE, pd.DataFrame(rows))
        write_record(folder / SETTINGS, *FORMAT, found)


def read_settings(path: Path) -> TunedSettings:
    """Read a ``tuning.json``; the names of parameters are not checked."""
    return read_record(check_file(path), *FORMAT, TunedSettings, "Give a tuning.json of glnn tune")
