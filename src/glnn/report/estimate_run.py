"""The estimate of a run: folds over its labels, its probabilities calibrated by them."""

import dataclasses
import time
from pathlib import Path

from glnn.engine.callbacks import Progress, ProgressLog
from glnn.estimator import GLNNClassifier
from glnn.evaluation import evaluate
from glnn.quality.folds import most_folds
from glnn.quality.suspects import suspect_labels
from glnn.report.fit_run import FitOptions, Watch
from glnn.report.results import FitResults
from glnn.report.run_labels import visible_labels
from glnn.report.threads import threads_for
from glnn.report.words import has_single_labels

FOLDS = 5


class _Epochs(ProgressLog):
    """Report epochs alone: the fold is the stage."""

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Keep silent."""


def folds_wanted(results: FitResults, folds: int | None) -> int:
    """Return how many folds to run: as many as asked for, else 5 where no label is left to test.

    None where every class has a single label, as none of them can be hidden; no more than labels
    are good for.
    """
    if folds == 0 or has_single_labels(results):
        return 0
    wanted = folds or (0 if results.split.test.size else FOLDS)
    return min(wanted, most_folds(results.data.labels[results.split.train]))


def with_estimate(
    results: FitResults,
    model: GLNNClassifier,
    options: FitOptions,
    n_folds: int,
    watch: Watch | None = None,
    checkpoint: Path | None = None,
) -> FitResults:
    """Judge the fit on labels that it has not seen; calibrate results and model by them.

    Parameters
    ----------
    results, model
        The run, and the fitted model that calibrates its probabilities from now on.
    options
        How it was fitted: each fold is fitted the same way.
    n_folds
        Number of fits.
    watch
        Told how far the work is; each fold and each plain method is a stage.
    checkpoint
        Folder for what each fold has said, or ``None``.
    """
    data, split = results.data, results.split
    n_epochs = options.expected_epochs(has_graph=data.graph is not None)
    judged = options.estimator()
    if watch is not None:
        judged.set_params(callbacks=[_Epochs(watch)])

    def tell(stage: str) -> None:
        if watch is not None:
            watch(Progress(stage, 0, n_epochs if stage.startswith("fold") else 0))

    started = time.perf_counter()
    with threads_for(data.n_nodes, options.threads):
        estimate = evaluate(
            data.features,
            visible_labels(data, split),
            data.graph,
            judged,
            n_folds,
            validation=split.val if split.val.size else None,
            random_state=options.seed,
            watch=tell,
            checkpoint=checkpoint,
        )
    model.trust(estimate.held_out)
    found = suspect_labels(estimate.held_out, estimate.probabilities)
    return dataclasses.replace(
        results,
        probabilities=model.label_distributions_,
        estimate=estimate,
        suspects=tuple(found.nodes.tolist()),
        calibration=model.calibration_,
        seconds={**results.seconds, "estimate": time.perf_counter() - started},
    )
