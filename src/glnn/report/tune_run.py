"""Search for parameters on the data of a run, and read and write its files."""

import json
import math
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from glnn._utils import limit_threads
from glnn.data.files import atomic_write, check_file, quote_path
from glnn.data.table_files import write_frames
from glnn.estimator import GLNNClassifier
from glnn.evaluation import evaluate
from glnn.exceptions import DataFormatError, MissingDependencyError
from glnn.quality.estimate import Evaluation
from glnn.report.plots import image_bytes, tuning_figure
from glnn.report.results import Search
from glnn.report.run import mask_test_labels
from glnn.report.sources import Source
from glnn.tuning import SPACE, Trials, TunedClassifier

SETTINGS, STORAGE, TABLE, PICTURE = "tuning.json", "study.db", "trials.csv", "trials.png"


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

    Test labels are not used. ``folder`` gets ``tuning.json``, ``trials.csv``, ``trials.png`` and
    the storage, from which a search can be resumed. ``report_line`` is called with a line of text
    for each trial and each outer fold.
    """
    data, split = source.data, source.split
    y = mask_test_labels(data, split)
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


def _write_files(
    folder: Path, options: TuneOptions, trials: Trials, estimate: Evaluation | None
) -> None:
    page = {
        "format": "glnn settings",
        "version": 1,
        "preset": options.preset,
        "params": trials.params,
        "goal": options.goal,
        "value": trials.value,
        "trials": trials.table,
        "nested": None if estimate is None else estimate.to_dict(),
    }
    image = None
    with suppress(MissingDependencyError):  # the table has the same numbers
        image = image_bytes(tuning_figure(_parse_search(page)))
    with closing(sqlite3.connect(folder / STORAGE, timeout=60)) as storage:
        storage.execute("BEGIN IMMEDIATE")  # a lock, as several workers write the same files
        for left in folder.glob(".*.part"):  # of a worker that was killed
            left.unlink(missing_ok=True)
        write_frames(folder / TABLE, [pd.DataFrame(trials.table)])
        with atomic_write(folder / SETTINGS) as file:
            file.write(json.dumps(page, indent=2) + "\n")
        if image is not None:
            with atomic_write(folder / PICTURE, "wb") as file:
                file.write(image)


@dataclass(frozen=True)
class TunedSettings:
    """The parameters that a search has found for a preset, and its trials."""

    preset: str
    params: Mapping[str, Any]
    search: Search | None


def read_settings(path: Path) -> TunedSettings:
    """Read a ``tuning.json``; the names of parameters are not checked."""
    check_file(path, max_bytes=10_000_000)
    try:
        page = json.loads(path.read_text(encoding="utf-8"))
        if (page["format"], page["version"]) != ("glnn settings", 1):
            raise ValueError("another format or version")
        params = dict(page["params"].items())
        search = _parse_search(page) if page.get("trials") else None
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        reason = f"no {error}" if isinstance(error, LookupError) else error
        raise DataFormatError(
            f"{quote_path(path)} must be a tuning.json of glnn tune, got: {reason}."
        ) from None
    except RecursionError:
        raise DataFormatError(f"{quote_path(path)} must be a tuning.json of glnn tune.") from None
    return TunedSettings(str(page["preset"]), params, search)


def _parse_search(page: Mapping[str, Any]) -> Search:
    goal, nested = str(page["goal"]), page.get("nested")
    rows = [{name: _check_number(part) for name, part in row.items()} for row in page["trials"]]
    names = dict.fromkeys(name for row in rows for name in row if name not in ("trial", goal))
    log = tuple(name for name in names if name in SPACE and SPACE[name].log)
    if any(row.get(name, 1) <= 0 for row in rows for name in log):
        raise ValueError("a trial whose parameter on a log scale is not positive")
    return Search(
        goal,
        tuple(row[goal] for row in rows),
        {name: tuple(row.get(name) for row in rows) for name in names},
        log,
        is_low_best=goal == "log_loss",
        verdict="" if nested is None else str(nested["verdict"]),
    )


def _check_number(part: Any) -> float | int:
    if isinstance(part, bool) or not isinstance(part, int | float) or not math.isfinite(part):
        raise ValueError(f"a trial with {str(part)[:40]!r} for a number")
    return part
