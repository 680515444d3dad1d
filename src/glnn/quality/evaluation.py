"""What an honest estimate found: numbers, predictions, a sentence, a picture."""

import html
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from glnn._display import html_table
from glnn.quality.calibration import Calibration
from glnn.quality.comparison import MethodScore
from glnn.quality.folds import Folds
from glnn.quality.held_out import HeldOut
from glnn.quality.intervals import Interval
from glnn.quality.verdict import Verdict, verdict_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

HOW = (
    "95 % intervals; accuracy, precision and recall by Wilson's formula, the rest by a bootstrap "
    "over nodes, both as if half as many labels had been judged, because mistakes on one graph "
    "come together"
)
"""How every interval is made, for all who show one."""

ALPHA = 0.1
"""Of the sets whose coverage is measured."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """How good a fit is on labels that it had not seen.

    Parameters
    ----------
    classes
        The labels, sorted.
    folds
        Which labels were hidden together.
    held_out
        Raw predictions by fits that had not seen the label.
    calibration
        The map to calibrated probabilities, learned from all judged labels.
    probabilities
        Calibrated held-out probabilities of every node, each by a map that other folds taught.
    own
        The fit's score.
    others
        Scores of plain methods on the same folds.
    per_class
        Precision and recall of every class.
    coverage
        Share of sets of ``predict_set(0.1)`` that had the true class; ``None`` for too few labels.
    notes
        What else a user should know.
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

    @property
    def metrics(self) -> dict[str, Interval]:
        """Every metric of the fit with its interval."""
        return dict(self.own.metrics)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the fit is any good, in one sentence."""
        return verdict_of(self.own, self.others)

    @cached_property
    def confusion(self) -> np.ndarray:
        """Number of judged nodes by true and predicted class."""
        n_classes = len(self.classes)
        table = np.zeros((n_classes, n_classes), dtype=np.int64)
        np.add.at(table, (self.own.judged.classes, self.own.judged.predicted), 1)
        return table

    @property
    def predictions(self) -> "DataFrame":
        """One row for each judged node: label, prediction, probabilities, and which fold."""
        from pandas import DataFrame

        nodes, judged = self.held_out.judged, self.own.judged
        columns: dict[str, Any] = {
            "label": self.classes[judged.classes],
            "predicted": self.classes[judged.predicted],
            "probability": judged.confidence,
            "fold": self.held_out.fold[nodes],
        }
        for number, label in enumerate(self.classes):
            columns[f"p({label})"] = judged.probabilities[:, number]
        return DataFrame(columns, index=nodes).rename_axis("node")

    def to_frame(self) -> "DataFrame":
        """Return one row for each method and metric: value, and the ends of its interval."""
        from pandas import DataFrame

        rows = [
            (score.title, name, interval.value, interval.low, interval.high)
            for score in (self.own, *self.others)
            for name, interval in score.metrics.items()
        ]
        return DataFrame(rows, columns=["method", "metric", "value", "low", "high"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything measured as plain values, the verdict first."""
        names = [str(label) for label in self.classes]
        return {
            "verdict": self.verdict.sentence,
            "kind": self.verdict.kind,
            "n_labels": len(self.own.judged),
            "n_folds": len(self.folds),
            "intervals": HOW,
            "metrics": {name: vars(value) for name, value in self.own.metrics.items()},
            "per_class": {
                name: {key: vars(value) for key, value in found.items()}
                for name, found in zip(names, self.per_class)
            },
            "confusion": {"classes": names, "true_by_predicted": self.confusion.tolist()},
            "set_coverage": None if self.coverage is None else vars(self.coverage),
            "plain_methods": [_plain_page(score) for score in self.others],
            "calibration": self.calibration.to_dict(),
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """Return the verdict, the metrics and the comparison as text."""
        lines = [self.verdict.sentence, ""]
        lines += [f"{name:<20} {value}" for name, value in self.own.metrics.items()]
        lines += ["", f"{'on the same folds':<20} accuracy (this fit minus the method)"]
        for score in self.others:
            lines.append(f"{score.title:<20} {score.metrics['accuracy']} ({_signed(score)})")
        lines += ["", f"{len(self.own.judged)} labels in {len(self.folds)} folds; {HOW}."]
        return "\n".join([*lines, *self.notes])

    def plot(self) -> "Figure":
        """Return a picture: how true probabilities are, and which classes are mixed up."""
        from glnn.quality.picture import evaluation_figure  # matplotlib only when drawn

        return evaluation_figure(self.own.judged, [str(label) for label in self.classes])

    def __repr__(self) -> str:
        return f"Evaluation({len(self.own.judged)} labels, {len(self.folds)} folds: {self.verdict})"

    def _repr_html_(self) -> str:
        verdict = html.escape(self.verdict.sentence)
        return f"<p><b>{verdict}</b></p>{html_table(self.own.metrics)}"


def _plain_page(score: MethodScore) -> dict[str, Any]:
    return {
        "name": score.name,
        "seconds": score.seconds,
        "metrics": {name: vars(value) for name, value in score.metrics.items()},
        "accuracy_difference": None if score.difference is None else vars(score.difference),
    }


def _signed(score: MethodScore) -> str:
    difference = score.difference
    if difference is None:
        return "-"
    return f"{difference.value:+.3f} [{difference.low:+.3f}, {difference.high:+.3f}]"
