"""Evaluation by cross-validation: scores, comparison with rivals, notes and plots."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.metrics import ConfusionMatrixDisplay, confusion_matrix

from glnn._utils import import_optional
from glnn.data.labels import Folds
from glnn.quality.calibration import Calibration
from glnn.quality.folds import HeldOut, Watch, label_weights
from glnn.quality.labelling import ConformalSets
from glnn.quality.metrics import (
    Interval,
    Score,
    ScoredPredictions,
    accuracy_interval,
    bootstrap_weights,
    class_intervals,
    metric_intervals,
    reliability,
)
from glnn.quality.rivals import NodeProblem, Rival
from glnn.quality.verdict import Verdict, make_verdict, score_rivals

if TYPE_CHECKING:
    from matplotlib.figure import Figure


# Result of an evaluation

# How intervals are computed, for every place that shows one.
INTERVAL_NOTE = (
    "brackets are 95 % intervals (Wilson's formula for accuracy, precision and recall, a bootstrap "
    "over nodes for the rest), as wide as for half as many labels, because errors on a graph are "
    "not independent"
)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Performance of a classifier on labels it has not seen; :func:`glnn.evaluate` returns it."""

    classes: np.ndarray  # the sorted labels
    folds: Folds  # which labels were hidden together; test labels are one fold
    held_out: HeldOut  # raw predictions by fits that did not see the label
    calibration: Calibration  # the map to calibrated probabilities, fitted to all hidden labels
    probabilities: np.ndarray  # of every node, calibrated with the other folds
    own: Score  # of the classifier
    others: tuple[Score, ...]  # of the rivals on the same folds
    per_class: tuple[dict[str, Interval], ...]  # precision and recall of every class
    # Fraction of the sets of predict_set(0.1) with the true class; None with too few labels.
    coverage: Interval | None = None
    notes: tuple[str, ...] = ()  # such as classes that are never predicted, rivals left out
    graph_helped: bool | None = None  # whether the given graph helped; None if that is unknown

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
        own = self.own.predictions
        labels = np.arange(own.n_classes)
        return np.asarray(confusion_matrix(own.classes, own.predicted, labels=labels))

    @property
    def predictions(self) -> pd.DataFrame:
        """One row for each hidden label: label, prediction, probabilities and fold."""
        nodes, predictions = self.held_out.hidden_nodes, self.own.predictions
        columns: dict[str, Any] = {
            "label": self.classes[predictions.classes],
            "predicted": self.classes[predictions.predicted],
            "probability": predictions.confidence,
            "fold": self.held_out.fold[nodes],
        }
        columns |= {f"p({c})": p for c, p in zip(self.classes, predictions.probabilities.T)}
        return pd.DataFrame(columns, index=nodes).rename_axis("node")

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each method and metric, with its confidence interval."""
        rows = [
            (score.title, name, interval.value, interval.low, interval.high)
            for score in (self.own, *self.others)
            for name, interval in score.metrics.items()
        ]
        return pd.DataFrame(rows, columns=["method", "metric", "value", "low", "high"])

    def to_dict(self) -> dict[str, Any]:
        """Return verdict, metrics and comparison as JSON values."""
        names = [str(label) for label in self.classes]
        return {
            "verdict": self.verdict.sentence,
            "comparison": asdict(self.verdict),
            "n_labels": len(self.own.predictions),
            "n_folds": len(self.folds.hidden),
            "intervals": INTERVAL_NOTE,
            "metrics": _as_dicts(self.own.metrics),
            "per_class": dict(zip(names, map(_as_dicts, self.per_class))),
            "confusion": {"classes": names, "true_by_predicted": self.confusion.tolist()},
            "set_coverage": None if self.coverage is None else vars(self.coverage),
            "rivals": [
                {"name": score.name, "seconds": score.seconds, "metrics": _as_dicts(score.metrics)}
                | {"accuracy_difference": score.difference and vars(score.difference)}
                for score in self.others
            ],
            "calibration": self.calibration.to_dict(),
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """Return verdict, metrics and comparison as text."""
        lines = [self.verdict.sentence, ""]
        lines += [f"{name:<20} {value}" for name, value in self.own.metrics.items()]
        lines += ["", f"{'on the same folds':<35} accuracy (this fit minus the rival), seconds"]
        for score in self.others:
            lead, accuracy = score.difference, score.metrics["accuracy"]
            ahead = lead and f"{lead.value:+.3f} [{lead.low:+.3f}, {lead.high:+.3f}]"
            lines.append(f"{score.title:<35} {accuracy} ({ahead or '-'}) {score.seconds:.1f}")
        sizes = f"{len(self.own.predictions)} labels in {len(self.folds.hidden)} folds"
        lines += ["", f"{sizes}; {INTERVAL_NOTE}.", *self.notes]
        return "\n".join(lines)

    def plot(self) -> "Figure":
        """Return a figure with the reliability curve and the confusion matrix."""
        return draw_evaluation(self.own.predictions, [str(label) for label in self.classes])

    def __repr__(self) -> str:
        counts = f"{len(self.own.predictions)} labels, {len(self.folds.hidden)} folds"
        return f"Evaluation({counts}: {self.verdict})"


def _as_dicts(found: Mapping[str, Interval]) -> dict[str, dict[str, float]]:
    return {name: vars(value) for name, value in found.items()}


# The evaluation itself


def estimate(
    problem: NodeProblem,
    held_out: HeldOut,
    folds: Folds,
    classes: np.ndarray,
    *,
    seconds: float = 0.0,
    class_weight: Any = None,
    calibration: Calibration | None = None,
    rivals: Sequence[Rival] = (),
    graph_helped: bool | None = None,
    seed: int = 0,
    progress: Watch = None,
) -> Evaluation:
    """Score the predictions of hidden labels, and rivals on the same folds.

    ``seconds`` is what the fit and its folds took, and the most that a rival may take;
    ``class_weight`` is that of the fit and is also used for calibration. A ``calibration`` says
    that the predictions are calibrated already. ``seed`` is that of the bootstrap and of the
    rivals; ``progress`` is called with the name of each step when it starts.
    """
    probabilities, nodes = held_out.probabilities, held_out.hidden_nodes
    if calibration is None:
        counted = label_weights(class_weight, None, classes, held_out.classes)
        calibration = held_out.calibration(weights=counted)
        probabilities = held_out.calibrated(counted)
    predictions = ScoredPredictions(held_out.classes[nodes], probabilities[nodes])
    weights = bootstrap_weights(len(nodes), np.random.default_rng(seed))
    own = Score("glnn", "GLNN", predictions, metric_intervals(predictions, weights), seconds)
    others, left_out = score_rivals(
        rivals,
        problem,
        folds,
        predictions,
        weights,
        seed=seed,
        max_seconds=seconds,
        progress=progress,
    )
    return Evaluation(
        classes=classes,
        folds=folds,
        held_out=held_out,
        calibration=calibration,
        probabilities=probabilities,
        own=own,
        others=others,
        per_class=tuple(class_intervals(predictions)),
        coverage=set_coverage(held_out, alpha=0.1),
        notes=(*_make_notes(folds, predictions, classes), *left_out),
        graph_helped=graph_helped,
    )


def set_coverage(held_out: HeldOut, alpha: float) -> Interval | None:
    """Return the fraction of hidden labels that are in the set calibrated with other folds."""
    n_right, nodes = 0, held_out.hidden_nodes
    for number in np.unique(held_out.fold[nodes]):
        own = nodes[held_out.fold[nodes] == number]
        sets = ConformalSets.of(held_out.without_fold(int(number)))
        if len(sets.scores) < 1 / alpha:
            return None
        p_values = sets.p_values(held_out.probabilities[own])
        n_right += int((p_values[np.arange(len(own)), held_out.classes[own]] > alpha).sum())
    return accuracy_interval(n_right, len(nodes))


def _make_notes(folds: Folds, predictions: ScoredPredictions, classes: np.ndarray) -> list[str]:
    notes = []
    if folds.single.size:
        names = ", ".join(map(str, classes[folds.single]))
        notes.append(
            f"classes whose only label cannot be hidden, so they are not evaluated: {names}"
        )
    if folds.is_repeated:
        notes.append(
            f"some classes have fewer labels than folds: one of each is hidden in each of the "
            f"{len(folds)} fits, in turn"
        )
    never = np.setdiff1d(predictions.classes, predictions.predicted)
    if never.size:
        names = ", ".join(map(str, classes[never]))
        notes.append(f"classes that are never predicted on hidden labels: {names}")
    return notes


# Plots


def draw_evaluation(predictions: ScoredPredictions, class_names: Sequence[str]) -> "Figure":
    """Draw the reliability curve and the confusion matrix of calibrated predictions."""
    figures = import_optional("matplotlib.figure")
    figure: Figure = figures.Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    curve = reliability(predictions)
    left.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    size = 10 + 200 * curve["count"] / curve["count"].sum()
    left.scatter(curve["confidence"], curve["accuracy"], s=size, color="#3366aa")
    left.plot(curve["confidence"], curve["accuracy"], color="#3366aa", linewidth=1)
    left.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", title="On hidden labels")
    left.set(xlabel="predicted probability", ylabel="share that is right")
    ConfusionMatrixDisplay.from_predictions(
        predictions.classes,
        predictions.predicted,
        labels=np.arange(len(class_names)),
        display_labels=class_names,
        include_values=len(class_names) <= 12,
        xticks_rotation="vertical",
        cmap="Blues",
        colorbar=False,
        ax=right,
    )
    return figure
