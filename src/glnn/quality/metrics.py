r"""How good predictions are, for any weights of the judged nodes.

All numbers are linear, or nearly so, in the nodes' weights. So one pass over a matrix of weights
(a row of ones, or one row for each bootstrap draw) gives the value and its distribution together.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.stats import norm

# --- metrics: How good predictions are, for any weights of the judged nodes

N_BINS = 15
"""Bins of confidence of the expected calibration error."""

METRICS = (
    "accuracy",
    "balanced_accuracy",
    "macro_f1",
    "log_loss",
    "brier",
    "auc",
    "calibration_error",
)
"""In the order in which they are shown; ``auc`` exists for two classes alone."""

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Judged:
    """Predictions beside the truth.

    Parameters
    ----------
    classes
        True class number of each judged node.
    probabilities
        Predicted distribution of each, nodes x classes.
    """

    classes: np.ndarray
    probabilities: np.ndarray

    @property
    def predicted(self) -> np.ndarray:
        """The most probable class of each node."""
        return np.asarray(self.probabilities.argmax(1))

    @property
    def confidence(self) -> np.ndarray:
        """The probability of that class."""
        return np.asarray(self.probabilities.max(1))

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.probabilities.shape[1])

    def __len__(self) -> int:
        return len(self.classes)


def measured(judged: Judged, weights: np.ndarray | None = None) -> dict[str, np.ndarray]:
    """Return every metric for every row of weights, and per class ``precision``, ``recall``.

    Parameters
    ----------
    judged
        The predictions.
    weights
        Draws x nodes, for instance how often a bootstrap draw has each node; ``None`` is one row
        of ones.

    Examples
    --------
    >>> right = Judged(np.array([0, 1]), np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> float(measured(right)["accuracy"][0]), float(measured(right)["auc"][0])
    (1.0, 1.0)
    """
    if weights is None:
        weights = np.ones((1, len(judged)))
    tables = confusion(judged, weights)
    own = judged.probabilities[np.arange(len(judged)), judged.classes]
    found = _from_confusion(tables)
    total = weights.sum(1)
    found["log_loss"] = weights @ -np.log(np.maximum(own, _TINY)) / total
    found["brier"] = weights @ _squared_errors(judged) / total
    if judged.n_classes == 2:
        found["auc"] = _auc(judged, weights)
    found["calibration_error"] = _calibration_error(judged, weights)
    return found


def confusion(judged: Judged, weights: np.ndarray) -> np.ndarray:
    """Return draws x true class x predicted class."""
    n_classes = judged.n_classes
    cell = judged.classes * n_classes + judged.predicted
    counts = weights @ _indicator(cell, n_classes**2)
    return np.asarray(counts).reshape(-1, n_classes, n_classes)


def _indicator(groups: np.ndarray, n_groups: int) -> sp.csr_matrix:
    """Return nodes x groups with a 1 where a node is in a group."""
    entries = (np.ones(len(groups)), groups, np.arange(len(groups) + 1))
    return sp.csr_matrix(entries, shape=(len(groups), n_groups))


def _from_confusion(tables: np.ndarray) -> dict[str, np.ndarray]:
    """Accuracy and what precision and recall make; classes that a draw lacks take no part."""
    right = np.diagonal(tables, axis1=1, axis2=2)
    true, predicted = tables.sum(2), tables.sum(1)
    recall, precision = _ratio(right, true), _ratio(right, predicted)
    f1 = _ratio(2 * right, true + predicted)
    return {
        "accuracy": right.sum(1) / tables.sum((1, 2)),
        "balanced_accuracy": _mean_known(recall),
        "macro_f1": _mean_known(f1),
        "precision": precision,
        "recall": recall,
    }


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    out = np.full(part.shape, np.nan)
    return np.asarray(np.divide(part, whole, out=out, where=whole > 0))


def _mean_known(values: np.ndarray) -> np.ndarray:
    """Mean over the classes that have a value."""
    known = ~np.isnan(values)
    return np.asarray(np.where(known, values, 0).sum(1) / np.maximum(known.sum(1), 1))


def _squared_errors(judged: Judged) -> np.ndarray:
    """Squared distance to the truth; for two classes that of one of them, as is usual."""
    truth = np.eye(judged.n_classes)[judged.classes]
    errors = np.square(judged.probabilities - truth).sum(1)
    return np.asarray(errors / 2 if judged.n_classes == 2 else errors)


def _auc(judged: Judged, weights: np.ndarray) -> np.ndarray:
    """Share of pairs of a node of each class that are in the right order, ties counted half."""
    order = judged.probabilities[:, 1].argsort(kind="stable")
    scores, is_positive = judged.probabilities[order, 1], judged.classes[order] == 1
    starts = np.flatnonzero(np.concatenate([[True], scores[1:] != scores[:-1]]))  # of ties
    ordered = weights[:, order]
    positive = np.add.reduceat(ordered * is_positive, starts, axis=1)
    negative = np.add.reduceat(ordered * ~is_positive, starts, axis=1)
    below = np.cumsum(negative, 1) - negative / 2
    pairs = positive.sum(1) * negative.sum(1)
    return _ratio((positive * below).sum(1), pairs)


def _calibration_error(judged: Judged, weights: np.ndarray) -> np.ndarray:
    r"""Return :math:`\sum_b \frac{n_b}{n} |\mathrm{accuracy}_b - \mathrm{confidence}_b|`.

    The expected calibration error, over bins of equal width.
    """
    in_bin = _indicator(bins_of(judged.confidence), N_BINS)
    gap = (judged.predicted == judged.classes) - judged.confidence
    return np.asarray(np.abs((weights * gap) @ in_bin).sum(1) / weights.sum(1))


def bins_of(confidence: np.ndarray) -> np.ndarray:
    """Return the bin of each confidence."""
    return np.minimum((confidence * N_BINS).astype(np.int64), N_BINS - 1)


def reliability(judged: Judged) -> Mapping[str, np.ndarray]:
    """Return mean confidence, accuracy and number of nodes of every bin that has some."""
    place = bins_of(judged.confidence)
    count = np.bincount(place, minlength=N_BINS)
    used = count > 0
    sums = {
        "confidence": np.bincount(place, judged.confidence, minlength=N_BINS),
        "accuracy": np.bincount(place, judged.predicted == judged.classes, minlength=N_BINS),
    }
    return {name: value[used] / count[used] for name, value in sums.items()} | {
        "count": count[used]
    }


# --- intervals: How far a number that was measured on few nodes may be from the truth

LEVEL = 0.95
"""Of every interval."""

N_DRAWS = 1000
"""Of the bootstrap."""

_MOST_WEIGHTS = 10_000_000

GROUPED = 2.0
"""So many judged nodes say as much as one independent one."""

_SHARES = ("balanced_accuracy", "macro_f1", "auc")
"""Metrics that are one where nothing is wrong."""


@dataclass(frozen=True)
class Interval:
    """A value, and between which numbers it lies with the stated confidence."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half the distance of its ends."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def bootstrap_weights(n_nodes: int, rng: np.random.Generator) -> np.ndarray:
    """Return how often each sample of the nodes, with replacement, has each node.

    A sample has half as many nodes as there are, for the reason given above. There are 1,000
    samples, fewer where nodes are so many that each is nearly the same.
    """
    size = max(1, round(n_nodes / GROUPED))
    n_draws = int(np.clip(_MOST_WEIGHTS // n_nodes, 100, N_DRAWS))
    return rng.multinomial(size, np.full(n_nodes, 1 / n_nodes), size=n_draws).astype(np.float64)


def percentile_interval(value: float, draws: np.ndarray) -> Interval:
    """Return the middle of a metric's bootstrap distribution.

    Examples
    --------
    >>> print(percentile_interval(0.5, np.linspace(0, 1, 41)))
    0.500 [0.025, 0.975]
    """
    known = draws[np.isfinite(draws)]
    if not known.size or not math.isfinite(value):
        return Interval(value, math.nan, math.nan)
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(known, [tail, 1 - tail])
    return Interval(value, float(low), float(high))


def accuracy_interval(n_right: int, n_judged: int) -> Interval:
    """Return the interval of an accuracy: Wilson's, of half as many nodes.

    Examples
    --------
    >>> print(accuracy_interval(20, 20))
    1.000 [0.722, 1.000]
    """
    return wilson_interval(n_right / GROUPED, n_judged / GROUPED)


def wilson_interval(n_right: float | int, n_judged: float | int) -> Interval:
    r"""Return Wilson's interval of a share, which stays honest at 0, at 1 and for few nodes.

    .. math:: \frac{\hat p + \frac{z^2}{2n} \pm z\sqrt{\frac{\hat p(1-\hat p)}{n}
              + \frac{z^2}{4n^2}}}{1 + \frac{z^2}{n}}

    Examples
    --------
    >>> print(wilson_interval(10, 10))
    1.000 [0.722, 1.000]
    """
    z, share = float(norm.ppf((1 + LEVEL) / 2)), n_right / n_judged
    scale = 1 + z**2 / n_judged
    centre = share + z**2 / (2 * n_judged)
    spread = z * math.sqrt(share * (1 - share) / n_judged + z**2 / (4 * n_judged**2))
    low, high = (centre - spread) / scale, (centre + spread) / scale
    return Interval(share, max(0.0, low), min(1.0, high))


def metric_intervals(judged: Judged, weights: np.ndarray) -> dict[str, Interval]:
    """Return every metric with its interval: accuracy by Wilson's, others by the bootstrap.

    Parameters
    ----------
    judged
        The predictions.
    weights
        Of :func:`bootstrap_weights`; the same ones make methods comparable.
    """
    values, draws = measured(judged), measured(judged, weights)
    found = {
        name: percentile_interval(float(values[name][0]), draws[name])
        for name in METRICS
        if name in values
    }
    n_right = int((judged.predicted == judged.classes).sum())
    found["accuracy"] = accuracy_interval(n_right, len(judged))
    for name in _SHARES:
        if name in found:
            found[name] = _not_sure_of_all(found[name], found["accuracy"])
    return found


def _not_sure_of_all(found: Interval, accuracy: Interval) -> Interval:
    """Return the interval, that of the accuracy where every sample of the nodes gives the same.

    Where no judged node is wrong, no sample has a wrong one; that is no proof that none is.
    """
    if found.low < found.high or not math.isfinite(found.value):
        return found
    return Interval(found.value, min(found.low, accuracy.low), max(found.high, accuracy.high))


def class_intervals(judged: Judged) -> list[dict[str, Interval]]:
    """Return precision and recall of every class, by Wilson's formula.

    A class that no judged node has, or that none is predicted to have, may have any.
    """
    is_right = judged.predicted == judged.classes
    return [
        {
            name: _share(int(is_right[among == c].sum()), int((among == c).sum()))
            for name, among in (("precision", judged.predicted), ("recall", judged.classes))
        }
        for c in range(judged.n_classes)
    ]


def _share(n_right: int, n_judged: int) -> Interval:
    if n_judged == 0:
        return Interval(0.0, 0.0, 1.0)
    return accuracy_interval(n_right, n_judged)


def paired_difference(
    own: Judged, other: Judged, weights: np.ndarray, metric: str = "accuracy"
) -> Interval:
    """Return by how much ``own`` exceeds ``other`` on the same nodes, draw by draw."""
    value = float((measured(own)[metric] - measured(other)[metric])[0])
    return percentile_interval(
        value, measured(own, weights)[metric] - measured(other, weights)[metric]
    )
