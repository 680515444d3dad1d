r"""Calibration of class probabilities with predictions of hidden labels.

Networks that are trained with losses on their own predictions are overconfident. The calibrated
distribution is a mixture of a tempered prediction and the class shares :math:`\pi`,

.. math:: q = (1 - \lambda)\, \mathrm{softmax}(s \ln p + \delta) + \lambda \pi.

:math:`s` is an inverse temperature. :math:`\delta`, one shift per class, is used only if classes
are imbalanced. With :math:`\lambda = 1` predictions are no better than chance and every node gets
the class shares. All parameters maximise the likelihood of the hidden labels. Two estimates are
then shrunk (James and Stein) by what chance alone would explain: :math:`1 - \lambda` is multiplied
by :math:`(1 - 1/G)_+`, where :math:`G` is twice the gain in log-likelihood over :math:`\pi`, and
the class shares are shrunk towards equal shares.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression

from glnn._utils import map_row_blocks

MIN_ISOTONIC_LABELS = 1000  # with so many hidden labels, isotonic regression is added
_SHIFT_PENALTY = 10.0  # weight of half the squared shifts, comparable to about ten labels
_MIN_LOG = -50.0  # logarithm used for probabilities that underflowed to zero
_BOUNDS = ((-6.0, 0.5), (-8.0, 8.0))  # of the log of the exponent and the logit of the mixture
_MAX_MIXTURE = 0.999  # below 1, so that the ranking of the classes of a node is kept
_STARTS = ((-1.0, -3.0), (0.0, 1.5))  # tempered with little mixture; mostly class shares


@dataclass(frozen=True, eq=False)
class Calibration:
    r"""A map from raw to calibrated probabilities.

    Parameters
    ----------
    exponent
        :math:`s`, the inverse of the temperature.
    mixture
        :math:`\lambda`, the weight of the class shares, 0 to 1.
    prior
        :math:`\pi`, the class shares.
    shifts
        :math:`\delta`, one shift per class; zero if classes are balanced.
    curves
        With many labels, the isotonic regression of each class: an array with two rows, thresholds
        and values.
    n_labels
        Number of hidden labels it was fitted to; 0 means no calibration.
    """

    exponent: float
    mixture: float
    prior: np.ndarray
    shifts: np.ndarray
    curves: tuple[np.ndarray, ...] = ()
    n_labels: int = 0

    @classmethod
    def identity(cls, n_classes: int) -> "Calibration":
        """Return the calibration that changes nothing."""
        return cls(1.0, 0.0, np.full(n_classes, 1 / n_classes), np.zeros(n_classes))

    @property
    def is_identity(self) -> bool:
        """Whether probabilities are returned unchanged."""
        return self.n_labels == 0

    def apply(self, probabilities: np.ndarray) -> np.ndarray:
        """Return calibrated probabilities; every row sums to one."""
        return (
            probabilities
            if self.is_identity
            else map_row_blocks(self._apply_to_rows, probabilities)
        )

    def _apply_to_rows(self, probabilities: np.ndarray) -> np.ndarray:
        """Return calibrated probabilities of a block of rows."""
        tempered = softmax(self.exponent * _clip_logs(probabilities) + self.shifts, 1)
        q = (1 - self.mixture) * tempered + self.mixture * self.prior
        if not self.curves:
            return np.asarray(q)
        bent = np.stack([np.interp(q[:, c], *curve) for c, curve in enumerate(self.curves)], 1)
        total = bent.sum(1, keepdims=True)
        return np.asarray(np.divide(bent, total, out=q, where=total > 0))

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as JSON values."""
        return {
            "exponent": self.exponent,
            "mixture": self.mixture,
            "prior": self.prior.tolist(),
            "shifts": self.shifts.tolist(),
            "curves": [curve.tolist() for curve in self.curves],
            "n_labels": self.n_labels,
        }

    @classmethod
    def from_dict(cls, page: Mapping[str, Any]) -> "Calibration":
        """Return the calibration that :meth:`to_dict` wrote."""
        return cls(
            float(page["exponent"]),
            float(page["mixture"]),
            np.array(page["prior"]),
            np.array(page["shifts"]),
            tuple(np.array(curve) for curve in page["curves"]),
            int(page["n_labels"]),
        )


def fit_calibration(
    probabilities: np.ndarray, classes: np.ndarray, weights: np.ndarray | None = None
) -> Calibration:
    """Fit the calibration to raw predictions of hidden labels and their true classes.

    ``probabilities`` has shape nodes x classes; ``weights`` are equal by default.
    """
    n_labels, n_classes = probabilities.shape
    if n_labels == 0:
        return Calibration.identity(n_classes)
    weights = np.ones(n_labels) if weights is None else weights * (n_labels / weights.sum())
    prior, is_imbalanced = shrink_class_shares(np.bincount(classes, weights, minlength=n_classes))
    likelihood = _Likelihood(_clip_logs(probabilities), classes, weights, prior, is_imbalanced)
    exponent, mixture, shifts = likelihood.maximize()
    found = Calibration(exponent, mixture, prior, shifts, (), n_labels)
    if n_labels < MIN_ISOTONIC_LABELS:
        return found
    curves = _fit_curves(found.apply(probabilities), classes, weights)
    return Calibration(exponent, mixture, prior, shifts, curves, n_labels)


def shrink_class_shares(counts: np.ndarray) -> tuple[np.ndarray, bool]:
    r"""Return the class shares, shrunk towards equal shares, and whether they are imbalanced.

    :math:`\chi^2` is the statistic of Pearson's test for equal shares, with mean :math:`C - 1` if
    they are equal. Deviations from equal shares are multiplied by
    :math:`(1 - (C - 1) / \chi^2)_+`; classes are imbalanced if this factor is above one half.

    Examples
    --------
    >>> shrink_class_shares(np.array([25, 26, 24]))
    (array([0.33333333, 0.33333333, 0.33333333]), False)
    >>> shrink_class_shares(np.array([160, 30, 10]))[1]
    True
    """
    n_labels, n_classes = counts.sum(), len(counts)
    shares, equal = counts / n_labels, 1 / n_classes
    chi_square = n_labels * n_classes * np.square(shares - equal).sum()
    kept = max(0.0, 1 - (n_classes - 1) / max(chi_square, 1e-12))
    shrunk = equal + kept * (shares - equal)
    shrunk = (shrunk * n_labels + equal) / (n_labels + 1)  # no share is zero
    return np.asarray(shrunk), bool(kept > 0.5)


class _Likelihood:
    """Negative log-likelihood of hidden labels as a function of exponent, mixture and shifts."""

    def __init__(
        self,
        logs: np.ndarray,
        classes: np.ndarray,
        weights: np.ndarray,
        prior: np.ndarray,
        has_shifts: bool,
    ) -> None:
        self.logs, self.classes, self.weights, self.prior = logs, classes, weights, prior
        self.has_shifts, self.n_classes = has_shifts, logs.shape[1]
        self._rows = np.arange(len(classes))

    def maximize(self) -> tuple[float, float, np.ndarray]:
        """Return the maximum likelihood exponent, mixture and shifts, with the mixture shrunk."""
        still = (None, None) if self.has_shifts else (0.0, 0.0)
        bounds = [*_BOUNDS, *[still] * self.n_classes]
        starts = [np.array([*start, *np.zeros(self.n_classes)]) for start in _STARTS]
        found = [
            minimize(self, start, jac=True, method="L-BFGS-B", bounds=bounds, tol=1e-5)
            for start in starts
        ]
        best = min(found, key=lambda result: float(result.fun))
        chance = -(self.weights * np.log(self.prior[self.classes])).sum()
        gain = 2 * (chance - float(best.fun))
        kept = max(0.0, 1 - 1 / gain) if gain > 0 else 0.0
        mixture = min(_MAX_MIXTURE, 1 - kept * (1 - float(expit(best.x[1]))))
        return float(np.exp(best.x[0])), mixture, np.asarray(best.x[2:])

    def __call__(self, parameters: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the value and its gradient."""
        exponent, mixture, shifts = np.exp(parameters[0]), expit(parameters[1]), parameters[2:]
        r = softmax(exponent * self.logs + shifts, 1)
        own, prior = r[self._rows, self.classes], self.prior[self.classes]
        q = np.maximum((1 - mixture) * own + mixture * prior, 1e-300)
        slope = -self.weights / q
        by_logit = -r * (slope * (1 - mixture) * own)[:, None]
        by_logit[self._rows, self.classes] += slope * (1 - mixture) * own
        gradient = np.empty_like(parameters)
        gradient[0] = exponent * (by_logit * self.logs).sum()
        gradient[1] = mixture * (1 - mixture) * (slope * (prior - own)).sum()
        gradient[2:] = by_logit.sum(0) + _SHIFT_PENALTY * shifts
        value = -(self.weights * np.log(q)).sum() + _SHIFT_PENALTY / 2 * np.square(shifts).sum()
        return float(value), gradient


def _clip_logs(probabilities: np.ndarray) -> np.ndarray:
    """Return logarithms, clipped from below at ``_MIN_LOG``."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray(probabilities, dtype=np.float64))
    return np.asarray(np.maximum(logs, _MIN_LOG))


def _fit_curves(
    probabilities: np.ndarray, classes: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return the isotonic regression of each class as thresholds and values."""
    curves = []
    for number in range(probabilities.shape[1]):
        curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        curve.fit(probabilities[:, number], classes == number, weights)
        curves.append(np.stack([curve.X_thresholds_, curve.y_thresholds_]))
    return tuple(curves)
