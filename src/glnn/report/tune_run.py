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
from glnn.data.table_files import write_frames
from glnn.engine.archive import (
    Packer,
    read_checked_json,
    unpack,
    wrap_unpack_errors,
    write_checked_json,
)
from glnn.estimator import GLNNClassifier
from glnn.evaluation import evaluate
from glnn.quality.estimate import Evaluation
from glnn.report.results import Search
from glnn.report.sources import Source
from glnn.tuning import Trials, TunedClassifier

SETTINGS, STORAGE, TABLE = "tuning.json", "study.db", "trials.csv"
FORMAT = ("glnn settings", 2)  # kind and version of tuning.json


@dataclass(frozen=True)
class TuneOptions:
    """How to search; with ``nested=0`` there is no nested estimate."""

    preset: str = "default"
    n_trials: int = 20
    folds: int = 3
    nested: int = 3
    goal: Any = "accuracy"
    seed: int = 0
    n_epochs: int | None = None
    device: str = "cpu"
    threads: int | None = None


def run_tuning(
    source: Source, options: TuneOptions, folder: Path, report_line: Callable[[str], None]
) -> tuple[Trials, Evaluation | None]:
    """Search for parameters, evaluate the search by nested folds, and write the results.

    Test labels are not used. ``folder`` gets ``tuning.json``, ``trials.csv`` and the storage, from
    which a search can be resumed. ``report_line`` is called with a line of text for each trial and
    each outer fold.
    """
    data, split = source.data, source.split
    y = source.visible_labels
    chosen = split.val if split.val.size else None
    base: Any = {"preset": options.preset, "n_epochs": options.n_epochs, "device": options.device}

    def on_trial(number: int, value: float, params: dict[str, Any]) -> None:
        shown = ", ".join(f"{name} {part:.3g}" for name, part in params.items())
        report_line(
            f"trial {number + 1:>3}  {options.goal} {value:.4f}  {shown or 'the preset as it is'}"
        )

    search = TunedClassifier(
        GLNNClassifier(**base, random_state=options.seed, calibrate=None),
        n_trials=options.n_trials,
        goal=options.goal,
        folds=options.folds,
        storage=folder / STORAGE,
        random_state=options.seed,
        watch=on_trial,
    )
    n_fits = options.n_trials * (options.folds if chosen is not None else 1)
    report_line(f"{n_fits} fits for the search, {options.nested * n_fits} for its nested estimate")
    estimate = None
    with limit_threads(data.n_nodes, options.threads):
        trials = search.search(data.features, y, data.graph, chosen)
        _write_files(folder, options, trials, None)
        if options.nested:
            search.set_params(watch=None)
            how: Any = {"random_state": options.seed, "watch": report_line, "validation": chosen}
            estimate = evaluate(data.features, y, data.graph, search, options.nested, **how)
            _write_files(folder, options, trials, estimate)
    return trials, estimate


@dataclass(frozen=True)
class TunedSettings:
    """What a search has found for a preset: the file ``tuning.json``."""

    preset: str
    params: Mapping[str, Any]  # of the best trial
    search: Search
    nested: Mapping[str, Any] | None = None  # the nested estimate, as in metrics.json


def _write_files(
    folder: Path, options: TuneOptions, trials: Trials, estimate: Evaluation | None
) -> None:
    goal, rows = str(options.goal), trials.table
    names = dict.fromkeys(name for row in rows for name in row if name not in ("trial", goal))
    search = Search(
        goal,
        tuple(row[goal] for row in rows),
        {name: tuple(row.get(name) for row in rows) for name in names},
        is_low_best=goal == "log_loss",
        verdict="" if estimate is None else estimate.verdict.sentence,
    )
    nested = None if estimate is None else estimate.to_dict()
    found = TunedSettings(options.preset, trials.params, search, nested)
    with closing(sqlite3.connect(folder / STORAGE, timeout=60)) as storage:
        storage.execute("BEGIN IMMEDIATE")  # a lock, as several workers write the same files
        for left in folder.glob(".*.part"):  # of a worker that was killed
            left.unlink(missing_ok=True)
        write_frames(folder / TABLE, [pd.DataFrame(rows)])
        write_checked_json(folder / SETTINGS, *FORMAT, Packer().pack(found))


def read_settings(path: Path) -> TunedSettings:
    """Read a ``tuning.json``; the names of parameters are not checked."""
    page = read_checked_json(check_file(path), *FORMAT, "Give a tuning.json of glnn tune")
    with wrap_unpack_errors(path):
        found: TunedSettings = unpack(TunedSettings, page, {})
    return found
