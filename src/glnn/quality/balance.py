"""Whether rare classes would gain from weights, told without another fit."""

import numpy as np

from glnn.quality.calibration import class_shares
from glnn.quality.intervals import Interval, paired_difference
from glnn.quality.metrics import Judged


def balanced_gain(judged: Judged, weights: np.ndarray) -> Interval | None:
    r"""Return how much macro-F1 rises if classes are chosen by :math:`q_c / \pi_c`.

    Balanced class weights teach a fit the distribution in which all classes are equally frequent.
    Dividing calibrated probabilities by the shares of the classes gives nearly the same choice.
    ``None`` where classes are even: then there is nothing to gain.

    Parameters
    ----------
    judged
        Calibrated predictions of hidden labels.
    weights
        Bootstrap samples of the judged nodes.
    """
    shares, is_uneven = class_shares(np.bincount(judged.classes, minlength=judged.n_classes))
    if not is_uneven:
        return None
    weighted = judged.probabilities / shares
    balanced = Judged(judged.classes, weighted / weighted.sum(1, keepdims=True))
    return paired_difference(balanced, judged, weights, "macro_f1")
