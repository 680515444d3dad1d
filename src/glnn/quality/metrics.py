r"""How good predictions are, for any weights of the judged nodes.

All numbers are linear, or nearly so, in the nodes' weights. So one pass over a matrix of weights
(a row of ones, or one row for each bootstrap draw) gives the value and its distribution together.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

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
