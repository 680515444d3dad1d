"""Search for parameters on the data of a run, and read and write its files."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from glnn._utils import limit_threads
from glnn.data.files import atomic_write, check_file, lock_journal, quote_path
from glnn.data.table_files import write_frames
from glnn.estimator import GLNNClassifier
from glnn.evaluation import evaluate
from glnn.exceptions import DataFormatError, MissingDependencyError
from glnn.quality.estimate import Evaluation
from glnn.report.page.page_data import Search
from glnn.report.plots import image_bytes, tuning_figure
from glnn.report.run import mask_test_labels
from glnn.report.sources import DataSpec
from glnn.tuning import SPACE, Trials, TunedClassifier

SETTINGS, JOURNAL, TABLE = "tuning.json", "study.journal", "trials.csv"
PICTURE = "trials.png"


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

    def make_classifier(self, storage: Path, on_trial: Any = None) -> TunedClassifier:
        """Return the unfitted classifier that runs the search."""
        base: Any = {"preset": self.preset, "n_epochs": self.n_epochs, "device": self.device}
        return TunedClassifier(
            GLNNClassifier(**base, random_state=self.seed, calibrate=None),
            n_trials=self.n_trials,
            goal=self.goal,
            folds=self.folds,
            storage=storage,
            random_state=self.seed,
            watch=on_trial,
        )


def run_tuning(
    spec: DataSpec, options: TuneOptions, folder: Path, report_line: Callable[[str], None]
) -> tuple[Trials, Evaluation | None]:
    """Search for parameters, evaluate the search by nested folds, and write the results.

    Test labels are not used. ``folder`` gets ``tuning.json``, ``trials.csv``, ``trials.png`` and
    the journal, from which a search can be resumed. ``report_line`` is called with a line of text
    for each trial and each outer fold.
    """
    opened, split, _ = spec.open()
    data, journal = opened.data, folder / JOURNAL
    y, chosen = mask_test_labels(data, split), split.val if split.val.size else None

    def on_trial(number: int, value: float, params: dict[str, Any]) -> None:
        shown = ", ".join(f"{name} {part:.3g}" for name, part in params.items())
        report_line(
            f"trial {number + 1:>3}  {options.goal} {value:.4f}  {shown or 'the preset as it is'}"
        )

    search = options.make_classifier(journal, on_trial)
    n_fits = options.n_trials * (options.folds if chosen is not None else 1)
    report_line(f"{n_fits} fits for the search, {options.nested * n_fits} for its nested estimate")
    estimate = None
    with limit_threads(data.n_nodes, options.threads):
        trials = search.search(data.features, y, data.graph, chosen)
        _write_files(folder, options, trials, None)
        if options.nested:
            estimate = evaluate(
                data.features,
                y,
                data.graph,
                options.make_classifier(journal),
                options.nested,
                validation=chosen,
                random_state=options.seed,
                watch=report_line,
            )
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
    search = _parse_search(page)
    assert search is not None  # there was a trial
    image = None
    with suppress(MissingDependencyError):  # the table has the same numbers
        image = image_bytes(tuning_figure(search))
    with lock_journal(folder / JOURNAL):  # several workers write the same files
        for name in (TABLE, SETTINGS, PICTURE):
            for left in folder.glob(f".{name}.*.part"):  # of a worker that was killed
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
        if not isinstance(page, dict) or page.get("format") != "glnn settings":
            raise ValueError("another file")
        if page.get("version") != 1:
            raise ValueError(f"version {page.get('version')!r}")
        params = page.get("params")
        if not isinstance(params, dict):
            raise ValueError("no parameters by name")
        return TunedSettings(str(page.get("preset")), params, _parse_search(page))
    except (ValueError, OverflowError, RecursionError) as error:
        raise DataFormatError(
            f"{quote_path(path)} must be a tuning.json of glnn tune, got: {error}."
        ) from None


def _parse_search(page: Mapping[str, Any]) -> Search | None:
    """Return the search with its trials; ``None`` if there are no trials."""
    goal, table, nested = page.get("goal"), page.get("trials"), page.get("nested")
    if not table:
        return None
    if not isinstance(goal, str) or not isinstance(table, list):
        raise ValueError("trials that are no list")
    columns = [{name: _check_number(part) for name, part in _trial_items(row)} for row in table]
    if not all(goal in row for row in columns):
        raise ValueError(f"a trial without {goal}")
    names = dict.fromkeys(name for row in columns for name in row if name not in ("trial", goal))
    on_log_scale = tuple(name for name in names if name in SPACE and SPACE[name].log)
    for row in columns:
        _check_trial(row, goal, on_log_scale)
    sentence = nested.get("verdict") if isinstance(nested, dict) else None
    return Search(
        goal,
        tuple(row[goal] for row in columns),
        {name: tuple(row.get(name) for row in columns) for name in names},
        on_log_scale,
        is_low_best=goal == "log_loss",
        verdict=sentence if isinstance(sentence, str) else "",
    )


def _check_trial(row: Mapping[str, float | int], goal: str, on_log_scale: tuple[str, ...]) -> None:
    """Raise ValueError for values that no search can have."""
    best = math.inf if goal == "log_loss" else 1
    if not 0 <= row[goal] <= best:
        raise ValueError(f"a trial whose {goal} is {row[goal]:g}")
    for name in on_log_scale:
        if row.get(name, 1) <= 0:
            raise ValueError(f"a trial whose {name} is {row[name]:g}")


def _trial_items(row: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(row, dict):
        raise ValueError("a trial that has no names")
    return row.items()


def _check_number(part: Any) -> float | int:
    if isinstance(part, bool) or not isinstance(part, int | float) or not math.isfinite(part):
        raise ValueError(f"a trial with {str(part)[:40]!r} for a number")
    return part
