"""The estimate itself: hide labels, fit without them, judge, compare, and say it."""

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from glnn.quality.balance import balanced_gain
from glnn.quality.comparison import COMPARED, MethodScore, plain_scores
from glnn.quality.conformal import ConformalSets
from glnn.quality.evaluation import ALPHA, Evaluation
from glnn.quality.folds import Folds, stratified_folds
from glnn.quality.held_out import HeldOut, Refit, hold_out
from glnn.quality.intervals import (
    Interval,
    accuracy_interval,
    bootstrap_weights,
    class_intervals,
)
from glnn.quality.metrics import Judged
from glnn.quality.plain import NodeProblem
from glnn.quality.shares import note_on_shares
from glnn.quality.verdict import FEWEST, beats_chance
from glnn.quality.weights import label_weights


def estimate(
    problem: NodeProblem,
    refit: Refit,
    classes: np.ndarray,
    *,
    class_weight: Any = None,
    n_folds: int = 5,
    compared: Sequence[str] = COMPARED,
    seed: int = 0,
    n_jobs: int | None = 1,
    watch: Callable[[str], None] | None = None,
) -> Evaluation:
    """Judge a fit on labels that it has not seen, beside plain methods.

    Parameters
    ----------
    problem
        Features, graph, labels; validation nodes keep their place in every fold and are not
        judged.
    refit
        Fits without the labels of some nodes; returns raw class probabilities of every node.
    classes
        The labels, in the order of the class numbers.
    class_weight
        That of the fit: calibration keeps to the same weights.
    n_folds
        Number of fits.
    compared
        Names of plain methods.
    seed
        Of the folds, the bootstrap and the plain methods.
    n_jobs
        Fits at a time, as in joblib.
    watch
        Told what begins.
    """
    tell = watch or _ignore
    trains = np.full(problem.n_nodes, -1, dtype=np.int64)
    trains[problem.train] = problem.labels[problem.train]
    folds = stratified_folds(trains, n_folds, seed)
    started = time.perf_counter()
    held_out = hold_out(
        refit, trains, folds, n_jobs=n_jobs, watch=lambda k: tell(f"fold {k + 1} of {len(folds)}")
    )
    seconds = time.perf_counter() - started
    counted = label_weights(class_weight, None, classes, held_out.classes)
    probabilities = held_out.calibrated(counted)
    nodes = held_out.judged
    judged = Judged(held_out.classes[nodes], probabilities[nodes])
    weights = bootstrap_weights(len(nodes), np.random.default_rng(seed))
    own = MethodScore.of("glnn", "GLNN", judged, weights, seconds)
    notes = _notes(folds, judged, classes, weights, class_weight)
    if class_weight is None and len(judged) >= FEWEST and beats_chance(own):
        notes += note_on_shares(judged, probabilities[problem.labels < 0], classes)
    others = plain_scores(problem, folds, judged, weights, names=compared, seed=seed, watch=tell)
    return Evaluation(
        classes,
        folds,
        held_out,
        held_out.calibration(weights=counted),
        probabilities,
        own,
        others,
        tuple(class_intervals(judged)),
        set_coverage(held_out, ALPHA),
        tuple(notes),
    )


def set_coverage(held_out: HeldOut, alpha: float) -> Interval | None:
    """Return the share of judged nodes whose set, made by other folds, has their class."""
    n_right, nodes = 0, held_out.judged
    for number in np.unique(held_out.fold[nodes]):
        own = nodes[held_out.fold[nodes] == number]
        rest = np.where(held_out.fold == number, -1, held_out.classes)
        sets = ConformalSets.of(HeldOut(held_out.probabilities, rest, held_out.fold))
        if len(sets.scores) < 1 / alpha:
            return None
        p_values = sets.p_values(held_out.probabilities[own])
        n_right += int((p_values[np.arange(len(own)), held_out.classes[own]] > alpha).sum())
    return accuracy_interval(n_right, len(nodes))


def _notes(
    folds: Folds, judged: Judged, classes: np.ndarray, weights: np.ndarray, class_weight: Any
) -> list[str]:
    notes = []
    if folds.single.size:
        names = ", ".join(str(classes[number]) for number in folds.single)
        notes.append(f"classes with a single label train but cannot be judged: {names}")
    if folds.is_repeated:
        notes.append(
            f"some classes have fewer labels than folds: one of each is hidden in each of the "
            f"{len(folds)} fits, in turn"
        )
    seen = np.isin(np.arange(len(classes)), judged.classes)
    never = seen & ~np.isin(np.arange(len(classes)), judged.predicted)
    if never.any():
        names = ", ".join(str(label) for label in classes[never])
        notes.append(f"classes that are never predicted where their labels are hidden: {names}")
    gain = None if class_weight is not None else balanced_gain(judged, weights)
    if gain is not None and gain.low > 0:
        notes.append(
            f"balanced class weights would raise macro-F1 by about {gain.value:.2f} (judged from "
            "the hidden labels' probabilities): try class_weight='balanced'"
        )
    return notes


def _ignore(stage: str) -> None:
    """Nobody watches."""
