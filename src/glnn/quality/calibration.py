r"""Probabilities that mean what they say, learned from predictions of labels that were hidden.

Losses on predictions make a network overconfident, and a confident mistake costs most. The
calibrated distribution is a mixture of a tempered prediction and the shares :math:`\pi` of the
classes,

.. math:: q = (1 - \lambda)\, \mathrm{softmax}(s \ln p + \delta) + \lambda \pi.

:math:`s` is the inverse of a temperature; :math:`\delta`, one shift a class, is used where classes
are uneven. :math:`\lambda = 1` says that predictions are no better than chance: then every node
gets the shares of the classes. All are fitted to the likelihood of the hidden labels, and what
chance alone would gain is taken off again (James and Stein's shrinkage): :math:`1 - \lambda` is
multiplied by :math:`(1 - 1/G)_+` with :math:`G` twice the gain in log-likelihood over
:math:`\pi`, and the shares are drawn towards equal ones unless labels prove them uneven.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, softmax
from sklearn.isotonic import IsotonicRegression

from glnn._utils import by_rows

MANY = 1000
"""From this many hidden labels on, a rising curve for each class is drawn on top."""

_SHIFT_PENALTY = 10.0
"""Weight of half the squared shifts: as much as some ten labels say."""

_LOWEST = -50.0
"""Logarithm of a probability that the network has rounded to nothing."""

_BOUNDS = ((-6.0, 0.5), (-8.0, 8.0))
"""Of the logarithm of the exponent, and of the log-odds of the mixture."""

_MOST_MIXTURE = 0.999
"""A trace of the prediction is left, so that the most probable class is not an accident."""

_STARTS = ((-1.0, -3.0), (0.0, 1.5))
"""A tempered prediction with little mixture, and mostly class shares."""


@dataclass(frozen=True, eq=False)
class Calibration:
    r"""A map from raw to calibrated probabilities.

    Parameters
    ----------
    exponent
        :math:`s`; its inverse is the temperature.
    mixture
        :math:`\lambda`, the weight of the class shares, 0 to 1.
    prior
        Shares :math:`\pi` of the classes.
    shifts
        :math:`\delta`; zero where classes are even.
    curves
        Where labels are many, the corners of a rising curve for each class, two rows each.
    n_labels
        Number of hidden labels it was learned from; 0 is no calibration at all.
    """

    exponent: float
    mixture: float
    prior: np.ndarray
    shifts: np.ndarray
    curves: tuple[np.ndarray, ...] = ()
    n_labels: int = 0

    @classmethod
    def identity(cls, n_classes: int) -> "Calibration":
        """Return the map that changes nothing."""
        return cls(1.0, 0.0, np.full(n_classes, 1 / n_classes), np.zeros(n_classes))

    @property
    def is_identity(self) -> bool:
        """Whether probabilities stay as they are, to the bit."""
        return self.n_labels == 0

    def apply(self, probabilities: np.ndarray) -> np.ndarray:
        """Return calibrated probabilities, rows that sum to one."""
        return probabilities if self.is_identity else by_rows(self._applied, probabilities)

    def _applied(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the same for some rows."""
        tempered = softmax(self.exponent * _logs(probabilities) + self.shifts, 1)
        q = (1 - self.mixture) * tempered + self.mixture * self.prior
        if not self.curves:
            return np.asarray(q)
        bent = np.stack([np.interp(q[:, c], *curve) for c, curve in enumerate(self.curves)], 1)
        total = bent.sum(1, keepdims=True)
        return np.asarray(np.divide(bent, total, out=q, where=total > 0))

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, ready for JSON."""
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
        """Return what :meth:`to_dict` wrote."""
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
    """Learn the map from raw predictions of nodes whose labels were hidden.

    Parameters
    ----------
    probabilities
        Raw predictions, nodes x classes.
    classes
        The nodes' class numbers.
    weights
        How much each node counts; all the same by default.
    """
    n_labels, n_classes = probabilities.shape
    if n_labels == 0:
        return Calibration.identity(n_classes)
    weights = np.ones(n_labels) if weights is None else weights * (n_labels / weights.sum())
    prior, is_uneven = class_shares(np.bincount(classes, weights, minlength=n_classes))
    likelihood = _Likelihood(_logs(probabilities), classes, weights, prior, is_uneven)
    exponent, mixture, shifts = likelihood.maximum()
    found = Calibration(exponent, mixture, prior, shifts, (), n_labels)
    if n_labels < MANY:
        return found
    curves = _curves(found.apply(probabilities), classes, weights)
    return Calibration(exponent, mixture, prior, shifts, curves, n_labels)


def class_shares(counts: np.ndarray) -> tuple[np.ndarray, bool]:
    r"""Return the classes' shares, drawn towards equal ones, and whether they are proven uneven.

    With :math:`\chi^2` the usual statistic of counts against equal ones, whose mean is
    :math:`C - 1` where they are equal, deviations are multiplied by
    :math:`(1 - (C - 1) / \chi^2)_+`; uneven means that more than half of them is left.

    Examples
    --------
    >>> class_shares(np.array([25, 26, 24]))
    (array([0.33333333, 0.33333333, 0.33333333]), False)
    >>> class_shares(np.array([160, 30, 10]))[1]
    True
    """
    n_labels, n_classes = counts.sum(), len(counts)
    shares, equal = counts / n_labels, 1 / n_classes
    chi_square = n_labels * n_classes * np.square(shares - equal).sum()
    kept = max(0.0, 1 - (n_classes - 1) / max(chi_square, 1e-12))
    drawn = equal + kept * (shares - equal)
    drawn = (drawn * n_labels + equal) / (n_labels + 1)  # no class is impossible
    return np.asarray(drawn), bool(kept > 0.5)


class _Likelihood:
    """Negative log-likelihood of hidden labels, over the exponent, the mixture and the shifts."""

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

    def maximum(self) -> tuple[float, float, np.ndarray]:
        """Return exponent, mixture and shifts, with what chance would gain taken off."""
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
        mixture = min(_MOST_MIXTURE, 1 - kept * (1 - float(expit(best.x[1]))))
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


def _logs(probabilities: np.ndarray) -> np.ndarray:
    """Return logarithms, with a floor for what was rounded to nothing."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray(probabilities, dtype=np.float64))
    return np.asarray(np.maximum(logs, _LOWEST))


def _curves(
    probabilities: np.ndarray, classes: np.ndarray, weights: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Return for each class the rising curve from its probability to its share."""
    curves = []
    for number in range(probabilities.shape[1]):
        curve = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
        curve.fit(probabilities[:, number], classes == number, weights)
        curves.append(np.stack([curve.X_thresholds_, curve.y_thresholds_]))
    return tuple(curves)
