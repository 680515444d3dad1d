r"""Sets of classes with a promise: the true class is in at least :math:`1 - \alpha` of them.

The strangeness of a class :math:`c` at a node is how much more probable another class is,
:math:`\max_{d \ne c} \ln p_d - \ln p_c`. Judged nodes and nodes without a label are scored by fits
of the same kind, none of which knew the node's label; so the strangeness of the true class has the
same distribution for both, and

.. math:: \mathrm{p}(c) = \frac{1 + \#\{\text{judged nodes at least as strange}\}}{1 + n}

is at most :math:`\alpha` for the true class in a share :math:`\alpha` of nodes. (Cross-conformal
prediction averages a node's p-values over all folds; that promises more than was asked where fits
differ. One fit a node keeps the promise as it was made.)
"""

from dataclasses import dataclass

import numpy as np

from glnn._validation import check_number
from glnn.exceptions import InputError
from glnn.quality.held_out import HeldOut


@dataclass(frozen=True, eq=False)
class ConformalSets:
    """Strangeness of the true class of every judged node, sorted."""

    scores: np.ndarray

    @classmethod
    def of(cls, held_out: HeldOut) -> "ConformalSets":
        """Score the judged nodes."""
        nodes = held_out.judged
        strange = strangeness(held_out.probabilities[nodes])
        return cls(np.sort(strange[np.arange(len(nodes)), held_out.classes[nodes]]))

    def p_values(self, probabilities: np.ndarray) -> np.ndarray:
        """Return for each node and class how usual the class would be there."""
        n_judged = len(self.scores)
        at_least = n_judged - np.searchsorted(self.scores, strangeness(probabilities), side="left")
        return np.asarray((1 + at_least) / (1 + n_judged))

    def contains(self, probabilities: np.ndarray, alpha: float) -> np.ndarray:
        """Return which classes are in the set of each node, nodes x classes.

        Parameters
        ----------
        probabilities
            Raw predictions.
        alpha
            Share of sets that may miss the true class, between 0 and 1.
        """
        fewest = fewest_labels(alpha)
        if len(self.scores) < fewest:
            raise InputError(
                f"sets with alpha={alpha:g} need at least {fewest} labels to judge, got "
                f"{len(self.scores)}. Label more rows, or ask for a larger alpha."
            )
        return np.asarray(self.p_values(probabilities) > alpha)


def fewest_labels(alpha: float) -> int:
    """Return how many judged labels sets with this ``alpha`` need.

    Examples
    --------
    >>> fewest_labels(0.1)
    19
    """
    check_number("alpha", alpha, low=0, high=0.99, open_low=True)
    return int(np.ceil(2 / alpha)) - 1


def strangeness(probabilities: np.ndarray) -> np.ndarray:
    r"""Return :math:`\max_{d \ne c} \ln p_d - \ln p_c` for every class :math:`c`.

    Examples
    --------
    >>> strangeness(np.array([[0.8, 0.2]])).round(2)
    array([[-1.39,  1.39]])
    """
    logs = np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), 1e-300))
    best = logs.argmax(1)
    nodes = np.arange(len(logs))
    top = logs[nodes, best]
    rest = logs.copy()
    rest[nodes, best] = -np.inf
    other = np.repeat(top[:, None], logs.shape[1], 1)
    other[nodes, best] = rest.max(1)
    return np.asarray(other - logs)
