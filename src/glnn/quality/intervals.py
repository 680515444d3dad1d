"""How far a number that was measured on few nodes may be from the truth.

Nodes of one graph are judged by few fits that share most of their labels, so mistakes come in
groups: over repeated draws of the labels, estimates were up to 1.8 times as far from the truth as
the same number of independent nodes would put them. Every interval is therefore that of half as
many nodes.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from glnn.quality.metrics import METRICS, Judged, measured

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
