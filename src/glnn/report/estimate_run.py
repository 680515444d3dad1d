"""The estimate of a run: folds over its labels, its probabilities calibrated by them."""

import dataclasses
import time

import numpy as np

from glnn.engine.callbacks import Progress, ProgressLog
from glnn.estimator import GLNNClassifier
from glnn.evaluation import evaluate
from glnn.quality.suspects import suspect_labels
from glnn.report.fit_run import FitOptions, Watch, threads_for, visible_labels
from glnn.report.results import FitResults
from glnn.report.words import count

FOLDS = 5


class _Epochs(ProgressLog):
    """Report epochs alone: the fold is the stage."""

    def on_stage_begin(self, stage: str, n_epochs: int) -> None:
        """Keep silent."""


def folds_wanted(results: FitResults, folds: int | None) -> int:
    """Return how many folds to run: as many as asked for, else 5 where no label is left to test.

    None where every class has a single label, as none of them can be hidden.
    """
    counts = np.bincount(results.data.labels[results.split.train])
    if folds == 0 or counts.max() < 2:
        return 0
    return folds or (0 if results.split.test.size else FOLDS)


def with_estimate(
    results: FitResults,
    model: GLNNClassifier,
    options: FitOptions,
    n_folds: int,
    watch: Watch | None = None,
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
        )
    model.trust(estimate.held_out)
    found = suspect_labels(estimate.held_out, estimate.probabilities)
    return dataclasses.replace(
        results,
        probabilities=model.label_distributions_,
        estimate=estimate,
        suspects=tuple(found.nodes.tolist()),
        seconds={**results.seconds, "estimate": time.perf_counter() - started},
    )


def closing_lines(results: FitResults) -> list[str]:
    """Return what a user should know besides numbers: notes, missing classes, doubtful labels."""
    notes = [] if results.estimate is None else list(results.estimate.notes)
    missing = never_predicted(results)
    return [*notes, *([] if missing is None else [missing]), *suspect_lines(results)]


def never_predicted(results: FitResults) -> str | None:
    """Return a line on the classes that no node is predicted to have, if there are such."""
    missing = np.setdiff1d(results.classes, results.predictions)
    if not missing.size:
        return None
    names = ", ".join(results.data.class_names[number] for number in missing)
    return f"never predicted, at no node at all: {names}"


def suspect_lines(results: FitResults, most: int = 5) -> list[str]:
    """Return the likeliest mistakes among the given labels, in words."""
    estimate = results.estimate
    if estimate is None or not results.suspects:
        return []
    data = results.data
    n_found = len(results.suspects)
    lines = [f"{count(n_found, 'given label')} may be wrong: fits without them say otherwise"]
    for node in results.suspects[:most]:
        row = estimate.probabilities[node]
        given = data.class_names[data.labels[node]]
        said = data.class_names[results.classes[row.argmax()]]
        lines.append(f"  {data.node_ids[node]}: given {given}, predicted {said} ({row.max():.0%})")
    if n_found > most:
        lines.append(f"  and {n_found - most} more: see suspect_labels in metrics.json")
    return lines
