"""A search for parameters on the data of a run: its files, and what it found in words."""

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from glnn.data.files import atomic_write, check_file, shown_path
from glnn.data.table_out import write_frames
from glnn.estimator import GLNNClassifier
from glnn.evaluation import evaluate
from glnn.exceptions import DataFormatError, MissingDependencyError
from glnn.quality.evaluation import Evaluation
from glnn.report.fit_run import visible_labels
from glnn.report.plots import image_bytes
from glnn.report.sources import Reading
from glnn.report.threads import threads_for
from glnn.report.tune_plot import tuning_figure
from glnn.tuning import Trials, TunedClassifier

SETTINGS, JOURNAL, TABLE = "tuning.json", "study.journal", "trials.csv"
PICTURE = "trials.png"


@dataclass(frozen=True)
class TuneOptions:
    """How to search; ``nested`` of 0 leaves the nested estimate out."""

    preset: str = "default"
    n_trials: int = 20
    folds: int = 3
    nested: int = 3
    goal: Any = "accuracy"
    seed: int = 0
    n_epochs: int | None = None
    device: str = "cpu"
    threads: int | None = None

    def classifier(self, storage: Path, watch: Any = None) -> TunedClassifier:
        """Return the unfitted classifier that searches."""
        base: Any = {"preset": self.preset, "n_epochs": self.n_epochs, "device": self.device}
        return TunedClassifier(
            GLNNClassifier(**base, random_state=self.seed, calibrate=None),
            n_trials=self.n_trials,
            goal=self.goal,
            folds=self.folds,
            storage=storage,
            random_state=self.seed,
            watch=watch,
        )


def run_tuning(
    reading: Reading, options: TuneOptions, folder: Path, say: Callable[[str], None]
) -> tuple[Trials, Evaluation | None]:
    """Search on the labels that a fit would see, judge the search, and write what was found.

    Parameters
    ----------
    reading
        The data; labels that are kept for the test take no part.
    options
        How to search.
    folder
        Of ``tuning.json``, ``trials.csv``, ``trials.png`` and the journal to go on from.
    say
        Told a line for each trial and each outer fold.
    """
    opened, split, _ = reading.open()
    data, journal = opened.data, folder / JOURNAL
    y, chosen = visible_labels(data, split), split.val if split.val.size else None

    def watch(number: int, value: float, params: dict[str, Any]) -> None:
        shown = ", ".join(f"{name} {part:.3g}" for name, part in params.items())
        say(f"trial {number + 1:>3}  {options.goal} {value:.4f}  {shown or 'the preset as it is'}")

    search = options.classifier(journal, watch)
    n_fits = options.n_trials * options.folds
    say(f"{n_fits} fits for the search, {options.nested * n_fits} for its nested estimate")
    judged = None
    with threads_for(data.n_nodes, options.threads):
        trials = search.search(data.features, y, data.graph, chosen)
        _write(folder, options, trials, None)
        if options.nested:
            judged = evaluate(
                data.features,
                y,
                data.graph,
                options.classifier(journal),
                options.nested,
                validation=chosen,
                random_state=options.seed,
                watch=say,
            )
            _write(folder, options, trials, judged)
    return trials, judged


def _write(folder: Path, options: TuneOptions, trials: Trials, judged: Evaluation | None) -> None:
    page = {
        "format": "glnn settings",
        "version": 1,
        "preset": options.preset,
        "params": trials.params,
        "goal": options.goal,
        "value": trials.value,
        "nested": None if judged is None else judged.to_dict(),
    }
    write_frames(folder / TABLE, [pd.DataFrame(trials.table)])
    with atomic_write(folder / SETTINGS) as file:
        file.write(json.dumps(page, indent=2) + "\n")
    with suppress(MissingDependencyError):  # the table says the same
        image = image_bytes(tuning_figure(trials, options.goal))
        with atomic_write(folder / PICTURE, "wb") as file:
            file.write(image)


def read_settings(path: Path) -> dict[str, Any]:
    """Return the parameters in a file that :func:`run_tuning` wrote; their names are not checked.

    The preset they were found for is among them.
    """
    check_file(path, max_bytes=1_000_000)
    try:
        page = json.loads(path.read_text(encoding="utf-8"))
        if page["format"] != "glnn settings" or page["version"] != 1:
            raise ValueError("another format")
        return {"preset": str(page["preset"]), **page["params"]}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataFormatError(
            f"{shown_path(path)} must be a tuning.json of glnn tune, got: {error}."
        ) from None
