"""Classification metrics and their confidence intervals.

Every metric is computed for a matrix of node weights at once: a row of ones gives the value, one
row per bootstrap draw gives its distribution.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.stats import norm

# Metrics

N_BINS = 15  # confidence bins of the expected calibration error

# In the order in which they are shown; auc exists only for two classes.
METRICS = (
    "accuracy",
    "balanced_accuracy",
    "macro_f1",
    "log_loss",
    "brier",
    "auc",
    "calibration_error",
)


@dataclass(frozen=True, eq=False)
class ScoredPredictions:
    """Predicted probabilities of nodes together with their true classes."""

    classes: np.ndarray  # true class number of each node
    probabilities: np.ndarray  # nodes x classes

    @property
    def predicted(self) -> np.ndarray:
        """The most probable class of each node."""
        return np.asarray(self.probabilities.argmax(1))

    @property
    def confidence(self) -> np.ndarray:
        """The probability of the most probable class of each node."""
        return np.asarray(self.probabilities.max(1))

    @property
    def is_right(self) -> np.ndarray:
        """Whether the most probable class of each node is its true class."""
        return np.asarray(self.predicted == self.classes)

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.probabilities.shape[1])

    def __len__(self) -> int:
        return len(self.classes)


def compute_metrics(
    predictions: ScoredPredictions, weights: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Return every metric for every row of weights; a class that is missing in a row is skipped.

    ``weights`` has shape draws x nodes, for instance how often each bootstrap draw contains each
    node; ``None`` is one row of ones.
    """
    if weights is None:
        weights = np.ones((1, len(predictions)))
    own = predictions.probabilities[np.arange(len(predictions)), predictions.classes]
    total = weights.sum(1)
    n_classes = predictions.n_classes
    cell = predictions.classes * n_classes + predictions.predicted
    counts = np.asarray(weights @ _indicator(cell, n_classes**2))
    tables = counts.reshape(-1, n_classes, n_classes)  # draws x true class x predicted class
    right = np.diagonal(tables, axis1=1, axis2=2)
    true, predicted = tables.sum(2), tables.sum(1)
    found = {
        "accuracy": right.sum(1) / tables.sum((1, 2)),
        "balanced_accuracy": np.nanmean(_ratio(right, true), 1),
        "macro_f1": np.nanmean(_ratio(2 * right, true + predicted), 1),
    }
    found["log_loss"] = weights @ -np.log(np.maximum(own, np.finfo(np.float64).tiny)) / total
    truth = np.eye(n_classes)[predictions.classes]
    errors = np.square(predictions.probabilities - truth).sum(1)
    if n_classes == 2:
        errors = errors / 2  # the Brier score of one of the two classes, as is usual
        found["auc"] = _auc(predictions, weights)
    found["brier"] = weights @ errors / total
    found["calibration_error"] = _calibration_error(predictions, weights)
    return found


def _indicator(groups: np.ndarray, n_groups: int) -> sp.csr_matrix:
    """Return the indicator matrix of nodes x groups."""
    entries = (np.ones(len(groups)), groups, np.arange(len(groups) + 1))
    return sp.csr_matrix(entries, shape=(len(groups), n_groups))


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    out = np.full(part.shape, np.nan)
    return np.asarray(np.divide(part, whole, out=out, where=whole > 0))


def _auc(predictions: ScoredPredictions, weights: np.ndarray) -> np.ndarray:
    """Return the area under the ROC curve; ties count one half."""
    order = predictions.probabilities[:, 1].argsort(kind="stable")
    scores, is_positive = predictions.probabilities[order, 1], predictions.classes[order] == 1
    starts = np.flatnonzero(np.concatenate([[True], scores[1:] != scores[:-1]]))  # of ties
    ordered = weights[:, order]
    positive = np.add.reduceat(ordered * is_positive, starts, axis=1)
    negative = np.add.reduceat(ordered * ~is_positive, starts, axis=1)
    below = np.cumsum(negative, 1) - negative / 2
    pairs = positive.sum(1) * negative.sum(1)
    return _ratio((positive * below).sum(1), pairs)


def _calibration_error(predictions: ScoredPredictions, weights: np.ndarray) -> np.ndarray:
    r"""Return :math:`\sum_b \frac{n_b}{n} |\mathrm{accuracy}_b - \mathrm{confidence}_b|`, debiased.

    The expected calibration error, over bins of equal width, minus the value that correct
    probabilities would have on average by chance alone, and at least 0. In a bin, that value is
    :math:`\sqrt{2 v / \pi}` with :math:`v = \sum_i c_i (1 - c_i)` over its confidences (the sum is
    nearly normal), and never more than :math:`2 v`, the value for a single node.
    """
    confidence = predictions.confidence
    in_bin = _indicator(_bin(confidence), N_BINS)
    gap = predictions.is_right - confidence
    variance = np.maximum(confidence * (1 - confidence), 0)
    by_chance = np.minimum(
        np.sqrt(2 / np.pi * ((weights**2 * variance) @ in_bin)), 2 * (weights * variance) @ in_bin
    )
    found = np.abs((weights * gap) @ in_bin).sum(1) - by_chance.sum(1)
    return np.asarray(np.maximum(found, 0) / weights.sum(1))


def _bin(confidence: np.ndarray) -> np.ndarray:
    return np.minimum((confidence * N_BINS).astype(np.int64), N_BINS - 1)


def reliability(predictions: ScoredPredictions) -> Mapping[str, np.ndarray]:
    """Return mean confidence, accuracy and number of nodes of every non-empty bin."""
    place = _bin(predictions.confidence)
    count = np.bincount(place, minlength=N_BINS)
    used = count > 0
    confidence, accuracy = (
        np.bincount(place, values, minlength=N_BINS)[used] / count[used]
        for values in (predictions.confidence, predictions.is_right)
    )
    return {"confidence": confidence, "accuracy": accuracy, "count": count[used]}


# Confidence intervals

LEVEL = 0.95  # confidence level of every interval
N_DRAWS = 1000  # bootstrap draws
_MAX_WEIGHTS = 10_000_000  # entries of the matrix of their weights

# Errors on one graph are correlated: intervals are those of half as many independent nodes.
DESIGN_EFFECT = 2.0


@dataclass(frozen=True)
class Interval:
    """A value with its confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def bootstrap_weights(n_nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Return how often each bootstrap draw contains each node, draws x nodes.

    A draw has half as many nodes as there are (see ``DESIGN_EFFECT``). There are 1,000 draws,
    fewer for very many nodes.
    """
    size = max(1, round(n_nodes / DESIGN_EFFECT))
    n_draws = int(np.clip(_MAX_WEIGHTS // n_nodes, 100, N_DRAWS))
    return rng.multinomial(size, np.full(n_nodes, 1 / n_nodes), size=n_draws).astype(np.float64)


def percentile_interval(value: float, draws: np.ndarray) -> Interval:
    """Return the percentile interval of a bootstrap distribution, widened to hold the value."""
    known = draws[np.isfinite(draws)]
    if not known.size or not math.isfinite(value):
        return Interval(value, math.nan, math.nan)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(known, [tail, 1 - tail])
    return Interval(value, min(value, float(low)), max(value, float(high)))


def accuracy_interval(n_right: int, n_nodes: int) -> Interval:
    r"""Return Wilson's interval of a share, for half as many nodes (see ``DESIGN_EFFECT``).

    .. math:: \frac{\hat p + \frac{z^2}{2n} \pm z\sqrt{\frac{\hat p(1-\hat p)}{n}
              + \frac{z^2}{4n^2}}}{1 + \frac{z^2}{n}}

    Examples
    --------
    >>> print(accuracy_interval(20, 20))
    1.000 [0.722, 1.000]
    """
    z = float(norm.ppf((1 + LEVEL) / 2))
    share, size = n_right / n_nodes, n_nodes / DESIGN_EFFECT
    scale = 1 + z**2 / size
    centre = share + z**2 / (2 * size)
    spread = z * math.sqrt(share * (1 - share) / size + z**2 / (4 * size**2))
    low, high = (centre - spread) / scale, (centre + spread) / scale
    return Interval(share, min(share, max(0.0, low)), max(share, min(1.0, high)))


def metric_intervals(predictions: ScoredPredictions, weights: np.ndarray) -> dict[str, Interval]:
    """Return every metric with its interval: Wilson's for accuracy, bootstrap for the others.

    ``weights`` are those of :func:`bootstrap_weights`; use the same for all methods that are
    compared. The calibration error of a draw is biased upwards, so its draws are shifted to have
    the debiased value as their mean.
    """
    values, draws = compute_metrics(predictions), compute_metrics(predictions, weights)
    errors = draws["calibration_error"]
    draws["calibration_error"] = np.maximum(errors - errors.mean() + values["calibration_error"], 0)
    names = [name for name in METRICS if name in values]
    found = {name: percentile_interval(float(values[name][0]), draws[name]) for name in names}
    found["accuracy"] = accuracy_interval(int(predictions.is_right.sum()), len(predictions))
    for name in ("balanced_accuracy", "macro_f1", "auc"):  # 1 if no prediction is wrong
        if name in found:
            found[name] = _widen_degenerate(found[name], found["accuracy"])
    return found


def _widen_degenerate(found: Interval, accuracy: Interval) -> Interval:
    """Return the interval, widened to that of the accuracy if it has width zero.

    If no node is wrong, no bootstrap draw has a wrong one, and the percentile interval is a point.
    If no draw has a value (the area under the curve of very few nodes), any value is possible.
    """
    if found.low < found.high or not math.isfinite(found.value):
        return found
    if math.isnan(found.low):
        return Interval(found.value, 0.0, 1.0)
    return Interval(found.value, min(found.low, accuracy.low), max(found.high, accuracy.high))


def class_intervals(predictions: ScoredPredictions) -> list[dict[str, Interval]]:
    """Return precision and recall of every class with Wilson's intervals.

    The interval is [0, 1] if no node has the class (recall) or is predicted to have it (precision).
    """
    is_right = predictions.is_right

    def share(among: np.ndarray, number: int) -> Interval:
        own = among == number
        if not own.any():
            return Interval(0.0, 0.0, 1.0)
        return accuracy_interval(int(is_right[own].sum()), int(own.sum()))

    return [
        {"precision": share(predictions.predicted, c), "recall": share(predictions.classes, c)}
        for c in range(predictions.n_classes)
    ]


def paired_difference(
    own: ScoredPredictions, other: ScoredPredictions, weights: np.ndarray
) -> Interval:
    """Return the difference of the accuracies of ``own`` and ``other`` on the same draws."""
    lead = own.is_right * 1.0 - other.is_right
    return percentile_interval(float(lead.mean()), weights @ lead / weights.sum(1))


# Scores of methods


@dataclass(frozen=True, eq=False)
class Score:
    """Score of one method on labels that it has not seen."""

    name: str  # in code
    title: str  # the name to show
    predictions: ScoredPredictions
    metrics: Mapping[str, Interval]  # see metric_intervals
    seconds: float  # duration of all fits together
    difference: Interval | None = None  # accuracy of the evaluated fit minus that of this method

    @property
    def accuracy(self) -> float:
        """Share of the labels that are predicted right."""
        return self.metrics["accuracy"].value
