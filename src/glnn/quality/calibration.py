r"""Calibration of class probabilities with predictions of hidden labels.

The calibrated distribution is a mixture of a tempered prediction and the class shares :math:`\pi`,

.. math:: q = (1 - \lambda)\, \mathrm{softmax}(s \ln p) + \lambda \pi.

:math:`s` is an inverse temperature, and :math:`\lambda` the share of labels that do not depend on
the prediction, such as mistakes; near 1 predictions are no better than chance and every node gets
the class shares. Both maximise the likelihood of the hidden labels times a prior,

.. math:: s \sim N(0.8,\, 0.4^2), \qquad
          \ln \frac{\lambda}{1 - \lambda} \sim N(-3,\, 1).

With few labels the prior decides. Its mean is the typical correction of the generated tables on
which it was chosen (``docs/trust.md``): probabilities are mostly a little too sure. Much flatter
probabilities are more plausible in it than much sharper ones, because noise needs them. The class
shares are shrunk towards equal shares.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit, softmax

from glnn._utils import map_row_blocks

# Mean and deviation of the prior of the exponent and of the logit of the mixture.
_PRIOR_MEAN, _PRIOR_DEVIATION = np.array([0.8, -3.0]), np.array([0.4, 1.0])
_BOUNDS = ((0.01, None), (None, None))
_MIN_LOG = -50.0  # logarithm used for probabilities that underflowed to zero


@dataclass(frozen=True, eq=False)
class Calibration:
    """A map from raw to calibrated probabilities."""

    exponent: float  # s, the inverse of the temperature
    mixture: float  # the weight of the class shares, 0 to 1
    prior: np.ndarray  # the class shares
    n_labels: int = 0  # number of hidden labels it was fitted to; 0: no calibration
    # Mean calibrated probability of the predicted classes of the hidden labels, and its standard
    # error, which comes from the uncertainty of exponent and mixture.
    confidence: float | None = None
    confidence_error: float | None = None

    @classmethod
    def identity(cls, n_classes: int) -> "Calibration":
        """Return the calibration that changes nothing."""
        return cls(1.0, 0.0, np.full(n_classes, 1 / n_classes))

    @property
    def is_identity(self) -> bool:
        """Whether probabilities are returned unchanged."""
        return self.n_labels == 0

    def apply(self, probabilities: np.ndarray) -> np.ndarray:
        """Return calibrated probabilities; every row sums to one."""
        if self.is_identity:
            return probabilities

        def apply(rows: np.ndarray) -> np.ndarray:
            tempered = temper(rows, self.exponent)
            return np.asarray((1 - self.mixture) * tempered + self.mixture * self.prior)

        return map_row_blocks(apply, probabilities)

    def to_dict(self) -> dict[str, Any]:
        """Return the parameters as JSON values."""
        return vars(self) | {"prior": self.prior.tolist()}


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
    prior = shrink_class_shares(np.bincount(classes, weights, minlength=n_classes))

    def calibrate(parameters: np.ndarray) -> np.ndarray:
        found = Calibration(parameters[0], expit(parameters[1]), prior, n_labels)
        return found.apply(probabilities)

    def log_likelihood(parameters: np.ndarray) -> np.ndarray:
        return np.asarray(np.log(calibrate(parameters)[np.arange(n_labels), classes]))

    def loss(parameters: np.ndarray) -> float:
        deviation = (parameters - _PRIOR_MEAN) / _PRIOR_DEVIATION
        return float(np.square(deviation).sum() / 2 - weights @ log_likelihood(parameters))

    def confidence(parameters: np.ndarray) -> float:
        return float(weights @ calibrate(parameters).max(1) / n_labels)

    best = minimize(loss, _PRIOR_MEAN, method="L-BFGS-B", bounds=_BOUNDS).x
    scores = np.atleast_2d(approx_fprime(best, log_likelihood))  # SciPy flattens a single row
    slope = approx_fprime(best, confidence)
    information = scores.T @ (weights[:, None] * scores) + np.diag(_PRIOR_DEVIATION**-2)
    error = np.sqrt(slope @ np.linalg.solve(information, slope))
    found = float(best[0]), float(expit(best[1]))
    return Calibration(*found, prior, n_labels, confidence(best), float(error))


def temper(probabilities: np.ndarray, exponent: float) -> np.ndarray:
    """Return the rows of probabilities to a power, divided by their sums."""
    with np.errstate(divide="ignore"):
        logs = np.log(np.asarray(probabilities, dtype=np.float64))
    return np.asarray(softmax(exponent * np.maximum(logs, _MIN_LOG), 1))


def shrink_class_shares(counts: np.ndarray) -> np.ndarray:
    r"""Return the class shares, shrunk towards equal shares.

    :math:`\chi^2` is the statistic of Pearson's test for equal shares, with mean :math:`C - 1` if
    they are equal. Deviations from equal shares are multiplied by
    :math:`(1 - (C - 1) / \chi^2)_+`.

    Examples
    --------
    >>> shrink_class_shares(np.array([25, 26, 24]))
    array([0.33333333, 0.33333333, 0.33333333])
    """
    n_labels, n_classes = counts.sum(), len(counts)
    shares, equal = counts / n_labels, 1 / n_classes
    chi_square = n_labels * n_classes * np.square(shares - equal).sum()
    kept = max(0.0, 1 - (n_classes - 1) / max(chi_square, 1e-12))
    shrunk = equal + kept * (shares - equal)
    return np.asarray((shrunk * n_labels + equal) / (n_labels + 1))  # no share is zero
