"""Predictions of labels that were hidden: one fit for each fold, the same machinery as any fit."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed

from glnn.quality.calibration import Calibration, fit_calibration
from glnn.quality.folds import Folds

Refit = Callable[[np.ndarray], np.ndarray]
"""Fits without the labels of some nodes; returns raw class probabilities of every node."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What fits say of every node without knowing its label.

    Parameters
    ----------
    probabilities
        Raw class probabilities, nodes x classes. A judged node's come from the fits that its
        label was hidden from (their mean, if there are several); those of a node without a label
        from one fit of the same kind, so that the two can be compared. Rows of labelled nodes
        that were never hidden come from a fit that knew their label.
    classes
        Class number of each judged node; -1 for all others.
    fold
        Which fit a row comes from.
    """

    probabilities: np.ndarray
    classes: np.ndarray
    fold: np.ndarray

    @property
    def n_folds(self) -> int:
        """Number of fits that the rows come from."""
        return int(self.fold.max()) + 1

    @property
    def judged(self) -> np.ndarray:
        """Numbers of the nodes whose hidden label is known."""
        return np.flatnonzero(self.classes >= 0)

    def calibration(
        self, keep: np.ndarray | None = None, weights: np.ndarray | None = None
    ) -> Calibration:
        """Learn the map to calibrated probabilities from the judged nodes.

        Parameters
        ----------
        keep
            Which nodes may teach, a mask; all by default.
        weights
            How much each node counts, by node number.
        """
        known = self.classes >= 0
        nodes = np.flatnonzero(known if keep is None else known & keep)
        chosen = None if weights is None else weights[nodes]
        return fit_calibration(self.probabilities[nodes], self.classes[nodes], chosen)

    def calibrated(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Return calibrated probabilities of every node, by a map that its fold did not teach."""
        found = np.array(self.probabilities, dtype=np.float64)
        for number in np.unique(self.fold):
            own = self.fold == number
            found[own] = self.calibration(~own, weights).apply(self.probabilities[own])
        return found


def hold_out(
    refit: Refit,
    classes: np.ndarray,
    folds: Folds,
    *,
    n_jobs: int | None = 1,
    watch: Callable[[int], None] | None = None,
) -> HeldOut:
    """Fit once for each fold without its labels, and gather what each fit says of hidden nodes.

    Parameters
    ----------
    refit
        Given the numbers of the nodes to hide, returns raw probabilities of every node.
    classes
        Class number of each labelled node, -1 elsewhere.
    folds
        Which labels are hidden together.
    n_jobs
        Fits at a time, as in joblib.
    watch
        Told the number of each fold before its fit, where fits are made one after another.
    """
    if n_jobs == 1:
        found = (_told(refit, hidden, number, watch) for number, hidden in enumerate(folds.hidden))
    else:
        found = iter(Parallel(n_jobs)(delayed(refit)(hidden) for hidden in folds.hidden))
    n_nodes = len(classes)
    fold = np.arange(n_nodes) % len(folds)
    times = np.zeros(n_nodes)
    total: np.ndarray | None = None
    for number, (hidden, probabilities) in enumerate(zip(folds.hidden, found)):
        if total is None:
            total = np.zeros(probabilities.shape)
        total[hidden] += probabilities[hidden]
        fold[hidden[times[hidden] == 0]] = number
        times[hidden] += 1
        others = (fold == number) & ~np.isin(np.arange(n_nodes), folds.nodes)
        total[others] = probabilities[others]
    assert total is not None  # there are at least two folds
    total /= np.maximum(times, 1)[:, None]
    judged = np.where(times > 0, classes, -1)
    return HeldOut(total, judged, fold)


def _told(
    refit: Refit, hidden: np.ndarray, number: int, watch: Callable[[int], None] | None
) -> np.ndarray:
    if watch is not None:
        watch(number)
    return refit(hidden)


def of_validation(probabilities: np.ndarray, classes: np.ndarray, nodes: np.ndarray) -> HeldOut:
    """Return what a fit says of its validation nodes, which chose epochs but never trained."""
    judged = np.full(len(classes), -1, dtype=np.int64)
    judged[nodes] = classes[nodes]
    return HeldOut(probabilities, judged, np.zeros(len(classes), dtype=np.int64))
