r"""The mixture of tracks: weights found on labels that the tracks have not seen.

The class probabilities of a fit are :math:`p(c \mid v) = \sum_t w_t\, p_t(c \mid v)`, summed over
its tracks :math:`t`. The weights maximise

.. math:: \sum_v \log \sum_t w_t \max(p_t(y_v \mid v), \varepsilon) + \sum_t \log w_t

over the simplex: a sum over labelled nodes :math:`v` whose labels did not train the tracks, and
one more label in favour of each track, which makes the weights alike where labels are few. The
floor :math:`\varepsilon = 0.01` keeps a few confident mistakes from deciding.
"""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64

# A track with a smaller weight beside the heaviest one alone is not trained any further.
NEGLIGIBLE = 0.15
_LEAST = 0.01  # no probability counts as smaller
_N_STEPS = 1000
_TOLERANCE = 1e-10


def fit_weights(
    right: Float64[np.ndarray, "v t"],
    label_weights: Float64[np.ndarray, "v"] | None = None,
) -> Float64[np.ndarray, "t"]:
    """Return the weights of tracks by expectation maximisation.

    ``right`` are the probabilities that each track gives to the true classes.

    Examples
    --------
    >>> right = np.array([[0.9, 0.3], [0.8, 0.4], [0.9, 0.2]])
    >>> fit_weights(right).round(2)
    array([0.73, 0.27])
    >>> fit_weights(right[:0])
    array([0.5, 0.5])
    """
    n_tracks = right.shape[1]
    weights = np.full(n_tracks, 1 / n_tracks)
    right = np.maximum(right, _LEAST)
    each = np.ones(len(right)) if label_weights is None else label_weights
    for _ in range(_N_STEPS):
        joint = right * weights
        shares = joint / joint.sum(1, keepdims=True)
        new: np.ndarray = (each @ shares + 1) / (each.sum() + n_tracks)
        if np.abs(new - weights).max() < _TOLERANCE:
            return new
        weights = new
    return weights


def mix(parts: Sequence[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """Return the weighted mean of class probabilities."""
    if len(parts) == 1:
        return parts[0]
    total = weights[0] * parts[0]
    for part, weight in zip(parts[1:], weights[1:]):
        total += weight * part
    return total
