"""Evaluation by cross-validation: scores, comparison with rivals, notes and plots."""

import html
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from glnn._utils import html_table
from glnn.engine.folds import Folds
from glnn.exceptions import MissingDependencyError
from glnn.quality.calibration import Calibration, shrink_class_shares
from glnn.quality.folds import HeldOut, label_weights
from glnn.quality.labelling import ConformalSets
from glnn.quality.metrics import (
    Interval,
    ScoredPredictions,
    accuracy_interval,
    bootstrap_weights,
    class_intervals,
    confusion,
    paired_difference,
    reliability,
)
from glnn.quality.rivals import NodeProblem, Rival
from glnn.quality.verdict import (
    MIN_LABELS,
    MethodScore,
    Verdict,
    beats_chance,
    make_verdict,
    score_rivals,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from pandas import DataFrame


# Result of an evaluation

# How intervals are computed, for every place that shows one.
INTERVAL_NOTE = (
    "95 % intervals; accuracy, precision and recall by Wilson's formula, the rest by a bootstrap "
    "over nodes, both as if half as many labels had been judged, because mistakes on one graph "
    "come together"
)

COVERAGE_ALPHA = 0.1  # of the prediction sets whose coverage is measured


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Cross-validated performance of a classifier, as returned by :func:`glnn.evaluate`.

    Parameters
    ----------
    classes
        The sorted labels.
    folds
        Which labels were hidden together.
    held_out
        Raw predictions by fits that did not see the label.
    calibration
        The map to calibrated probabilities, fitted to all hidden labels.
    probabilities
        Probabilities of every node, calibrated with the other folds.
    own
        Score of the classifier.
    others
        Scores of the rivals on the same folds.
    per_class
        Precision and recall of every class.
    coverage
        Fraction of the sets of ``predict_set(0.1)`` that contain the true class; ``None`` with too
        few labels.
    notes
        Remarks, for instance on classes that are never predicted, or on rivals that were left out.
    graph_helped
        Whether the given graph helped; ``None`` if that is unknown.
    """

    classes: np.ndarray
    folds: Folds
    held_out: HeldOut
    calibration: Calibration
    probabilities: np.ndarray
    own: MethodScore
    others: tuple[MethodScore, ...]
    per_class: tuple[dict[str, Interval], ...]
    coverage: Interval | None = None
    notes: tuple[str, ...] = ()
    graph_helped: bool | None = None

    @property
    def metrics(self) -> dict[str, Interval]:
        """Every metric of the classifier with its confidence interval."""
        return dict(self.own.metrics)

    @cached_property
    def verdict(self) -> Verdict:
        """Comparison with chance and with the rivals."""
        return make_verdict(self.own, self.others, self.graph_helped)

    @cached_property
    def confusion(self) -> np.ndarray:
        """Confusion matrix of the hidden labels, true by predicted class."""
        n_classes = len(self.classes)
        table = np.zeros((n_classes, n_classes), dtype=np.int64)
        np.add.at(table, (self.own.predictions.classes, self.own.predictions.predicted), 1)
        return table

    @property
    def predictions(self) -> "DataFrame":
        """One row for each hidden label: label, prediction, probabilities and fold."""
        from pandas import DataFrame

        nodes, predictions = self.held_out.hidden_nodes, self.own.predictions
        columns: dict[str, Any] = {
            "label": self.classes[predictions.classes],
            "predicted": self.classes[predictions.predicted],
            "probability": predictions.confidence,
            "fold": self.held_out.fold[nodes],
        }
        for number, label in enumerate(self.classes):
            columns[f"p({label})"] = predictions.probabilities[:, number]
        return DataFrame(columns, index=nodes).rename_axis("node")

    def to_frame(self) -> "DataFrame":
        """Return one row for each method and metric, with its confidence interval."""
        from pandas import DataFrame

        rows = [
            (score.title, name, interval.value, interval.low, interval.high)
            for score in (self.own, *self.others)
            for name, interval in score.metrics.items()
        ]
        return DataFrame(rows, columns=["method", "metric", "value", "low", "high"])

    def to_dict(self) -> dict[str, Any]:
        """Return verdict, metrics and comparison as JSON values."""
        names = [str(label) for label in self.classes]
        return {
            "verdict": self.verdict.sentence,
            "comparison": self.verdict.to_dict(),
            "n_labels": len(self.own.predictions),
            "n_folds": len(self.folds),
            "intervals": INTERVAL_NOTE,
            "metrics": {name: vars(value) for name, value in self.own.metrics.items()},
            "per_class": {
                name: {key: vars(value) for key, value in found.items()}
                for name, found in zip(names, self.per_class)
            },
            "confusion": {"classes": names, "true_by_predicted": self.confusion.tolist()},
            "set_coverage": None if self.coverage is None else vars(self.coverage),
            "rivals": [_method_dict(score) for score in self.others],
            "calibration": self.calibration.to_dict(),
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """Return verdict, metrics and comparison as text."""
        lines = [self.verdict.sentence, ""]
        lines += [f"{name:<20} {value}" for name, value in self.own.metrics.items()]
        lines += ["", f"{'on the same folds':<35} accuracy (this fit minus the rival), seconds"]
        for score in self.others:
            lines.append(
                f"{score.title:<35} {score.metrics['accuracy']} ({_format_difference(score)})"
                f" {score.seconds:.1f}"
            )
        lines += [
            "",
            f"{len(self.own.predictions)} labels in {len(self.folds)} folds; {INTERVAL_NOTE}.",
        ]
        return "\n".join([*lines, *self.notes])

    def plot(self) -> "Figure":
        """Return a figure with the reliability curve and the confusion matrix."""
        return draw_evaluation(self.own.predictions, [str(label) for label in self.classes])

    def __repr__(self) -> str:
        return (
            f"Evaluation({len(self.own.predictions)} labels, {len(self.folds)} folds: "
            f"{self.verdict})"
        )

    def _repr_html_(self) -> str:
        verdict = html.escape(self.verdict.sentence)
        return f"<p><b>{verdict}</b></p>{html_table(self.own.metrics)}"


def _method_dict(score: MethodScore) -> dict[str, Any]:
    return {
        "name": score.name,
        "seconds": score.seconds,
        "metrics": {name: vars(value) for name, value in score.metrics.items()},
        "accuracy_difference": None if score.difference is None else vars(score.difference),
    }


def _format_difference(score: MethodScore) -> str:
    difference = score.difference
    if difference is None:
        return "-"
    return f"{difference.value:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"


# Prior shift between labelled and unlabelled rows

_N_EM_STEPS = 100
MIN_PRIOR_SHIFT = 0.1  # total variation distance of class shares from which a note is given


def estimate_shifted_prior(
    probabilities: Float[np.ndarray, "n c"], shares: Float[np.ndarray, "c"]
) -> Float[np.ndarray, "c"]:
    """Return the maximum likelihood class shares of unlabelled rows, by the EM algorithm.

    ``probabilities`` are calibrated; ``shares`` are those of the labels, none of them zero.

    Examples
    --------
    >>> q = np.array([[0.9, 0.1]] * 9 + [[0.1, 0.9]])
    >>> bool(estimate_shifted_prior(q, np.array([0.5, 0.5]))[0] > 0.9)
    True
    """
    found = np.array(shares, dtype=np.float64)
    for _ in range(_N_EM_STEPS):
        weighted = probabilities * (found / shares)
        found = (weighted / weighted.sum(1, keepdims=True)).mean(0)
    return found


def note_prior_shift(
    predictions: ScoredPredictions, unlabelled: Float[np.ndarray, "n c"], names: np.ndarray
) -> list[str]:
    """Return a note if the class shares of unlabelled rows clearly differ from those of labels.

    It states the accuracy to expect on unlabelled rows: the recall of each class, weighted by its
    share there. ``unlabelled`` are the calibrated probabilities of these rows.
    """
    counts = np.bincount(predictions.classes, minlength=predictions.n_classes)
    if not len(unlabelled) or (counts == 0).any():
        return []
    shares = counts / counts.sum()
    found = estimate_shifted_prior(unlabelled, shares)
    if np.abs(found - shares).sum() / 2 < MIN_PRIOR_SHIFT:
        return []
    right = predictions.predicted == predictions.classes
    recall = np.bincount(predictions.classes, right, minlength=predictions.n_classes) / counts
    most = int(np.abs(found - shares).argmax())
    return [
        f"classes seem to be otherwise frequent among rows without a label ({names[most]} about "
        f"{100 * found[most]:.0f} %, {100 * shares[most]:.0f} % among labels): accuracy there "
        f"about {100 * found @ recall:.0f} %"
    ]


# Effect of balanced class weights


def class_weight_gain(predictions: ScoredPredictions, weights: np.ndarray) -> Interval | None:
    r"""Return the gain in macro-F1 if the class with the largest :math:`q_c / \pi_c` is predicted.

    A fit with balanced class weights learns probabilities for equally frequent classes. Dividing
    calibrated probabilities by the class shares gives nearly the same predictions without a fit.
    ``None`` if the classes are balanced.
    """
    shares, is_imbalanced = shrink_class_shares(
        np.bincount(predictions.classes, minlength=predictions.n_classes)
    )
    if not is_imbalanced:
        return None
    weighted = predictions.probabilities / shares
    balanced = ScoredPredictions(predictions.classes, weighted / weighted.sum(1, keepdims=True))
    return paired_difference(balanced, predictions, weights, "macro_f1")


# The evaluation itself


def estimate(
    problem: NodeProblem,
    held_out: HeldOut,
    folds: Folds,
    classes: np.ndarray,
    *,
    seconds: float = 0.0,
    class_weight: Any = None,
    rivals: Sequence[Rival] = (),
    graph_helped: bool | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Evaluation:
    """Score the predictions of hidden labels, and rivals on the same folds.

    ``seconds`` is what the fit and its folds took, and the most that a rival may take;
    ``class_weight`` is that of the fit and is also used for calibration; ``seed`` is that of the
    bootstrap and of the rivals; ``progress`` is called with the name of each step when it starts.
    """
    report = progress or _ignore
    counted = label_weights(class_weight, None, classes, held_out.classes)
    probabilities = held_out.calibrated(counted)
    nodes = held_out.hidden_nodes
    predictions = ScoredPredictions(held_out.classes[nodes], probabilities[nodes])
    weights = bootstrap_weights(len(nodes), np.random.default_rng(seed))
    own = MethodScore.of("glnn", "GLNN", predictions, weights, seconds)
    notes = _notes(folds, predictions, classes, weights, class_weight)
    if class_weight is None and len(predictions) >= MIN_LABELS and beats_chance(own):
        notes += note_prior_shift(predictions, probabilities[problem.labels < 0], classes)
    others, left_out = score_rivals(
        rivals,
        problem,
        folds,
        predictions,
        weights,
        seed=seed,
        max_seconds=seconds,
        progress=report,
    )
    return Evaluation(
        classes,
        folds,
        held_out,
        held_out.calibration(weights=counted),
        probabilities,
        own,
        others,
        tuple(class_intervals(predictions)),
        set_coverage(held_out, COVERAGE_ALPHA),
        (*notes, *left_out),
        graph_helped,
    )


def set_coverage(held_out: HeldOut, alpha: float) -> Interval | None:
    """Return the fraction of hidden labels that are in the set calibrated with other folds."""
    n_right, nodes = 0, held_out.hidden_nodes
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
    folds: Folds,
    predictions: ScoredPredictions,
    classes: np.ndarray,
    weights: np.ndarray,
    class_weight: Any,
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
    seen = np.isin(np.arange(len(classes)), predictions.classes)
    never = seen & ~np.isin(np.arange(len(classes)), predictions.predicted)
    if never.any():
        names = ", ".join(str(label) for label in classes[never])
        notes.append(f"classes that are never predicted where their labels are hidden: {names}")
    gain = None if class_weight is not None else class_weight_gain(predictions, weights)
    if gain is not None and gain.low > 0:
        notes.append(
            f"balanced class weights would raise macro-F1 by about {gain.value:.2f} (judged from "
            "the hidden labels' probabilities): try class_weight='balanced'"
        )
    return notes


def _ignore(stage: str) -> None:
    """Do nothing; the default progress function."""


# Plots


def draw_evaluation(predictions: ScoredPredictions, class_names: Sequence[str]) -> "Figure":
    """Draw the reliability curve and the confusion matrix of calibrated predictions."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError(
            "a plot needs matplotlib. Install it with pip install 'glnn[report]'."
        ) from None
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_reliability(left, predictions)
    draw_confusion(right, predictions, class_names)
    return figure


def draw_reliability(axes: "Axes", predictions: ScoredPredictions) -> None:
    """Draw the reliability curve: accuracy against confidence."""
    curve = reliability(predictions)
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    size = 10 + 200 * curve["count"] / curve["count"].sum()
    axes.scatter(curve["confidence"], curve["accuracy"], s=size, color="#3366aa")
    axes.plot(curve["confidence"], curve["accuracy"], color="#3366aa", linewidth=1)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set(xlabel="predicted probability", ylabel="share that is right")
    axes.set_title("On hidden labels")


def draw_confusion(
    axes: "Axes", predictions: ScoredPredictions, class_names: Sequence[str]
) -> None:
    """Draw the confusion matrix, normalised by the true classes."""
    table = confusion(predictions, np.ones((1, len(predictions))))[0]
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    places = np.arange(len(class_names))
    axes.set_xticks(places, class_names, rotation=90)
    axes.set_yticks(places, class_names)
    axes.set(xlabel="predicted", ylabel="true")
    if len(class_names) <= 12:
        for i, j in np.argwhere(table > 0):
            dark = "white" if shares[i, j] > 0.5 else "black"
            axes.text(j, i, f"{table[i, j]:.0f}", ha="center", va="center", color=dark)
