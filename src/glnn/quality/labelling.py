r"""What to label next: the nodes whose labels would move uncertain predictions most.

Linear regression of the classes on the nodes' rows :math:`z_i` (:mod:`glnn.quality.explain`),
with ridge :math:`\rho`, knows each node up to the covariance

.. math:: \Sigma_{ij} = z_i^\top M z_j, \qquad
          M = \Bigl(I + \tfrac{1}{\rho} \textstyle\sum_{l} z_l z_l^\top\Bigr)^{-1},

summed over the labelled nodes :math:`l`. A label at :math:`v` would lower the variance of node
:math:`i` by :math:`\Sigma_{iv}^2 / (\Sigma_{vv} + \rho)`. The node that lowers it most, each node
weighted by how uncertain its prediction is (:func:`attention`), comes first; then it counts as
labelled. So no two suggestions say the same, and outliers, which speak for nobody else, come late.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from glnn._utils import check_number
from glnn.exceptions import InputError
from glnn.quality.calibration import class_shares
from glnn.quality.folds import HeldOut

# --- suggest: What to label next: the nodes whose labels would move uncertain predictions most

_RIDGE = 1.0


def uncertainty(probabilities: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n"]:
    r"""Return the entropy :math:`-\sum_c p_c \ln p_c / \ln C`: 0 for a sure node, 1 for chance.

    Examples
    --------
    >>> uncertainty(np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([1., 0.])
    """
    logarithm = np.log(np.where(probabilities > 0, probabilities, 1.0))
    entropy = np.abs((probabilities * logarithm).sum(1))  # every part has one sign
    return np.asarray(entropy / np.log(probabilities.shape[1]))


def attention(probabilities: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n"]:
    """Return how much each node's variance counts: its uncertainty plus the mean of all.

    Networks are often sure of nodes that they get wrong, so half of the weight goes to all nodes
    alike.

    Examples
    --------
    >>> attention(np.array([[0.5, 0.5], [1.0, 0.0]]))
    array([1.5, 0.5])
    """
    own = uncertainty(probabilities)
    return np.asarray(own + own.mean())


def most_telling(
    rows: Float[np.ndarray, "n d"],
    weights: Float[np.ndarray, "n"],
    labelled: Int[np.ndarray, "l"],
    pool: Int[np.ndarray, "m"],
    k: int,
    *,
    ridge: float = _RIDGE,
) -> tuple[Int[np.ndarray, "k"], Float[np.ndarray, "k"]]:
    r"""Return the nodes to label, best first, and how much variance each would take away.

    Parameters
    ----------
    rows
        The nodes' rows :math:`z_i`.
    weights
        How much the variance of each node counts.
    labelled, pool
        Nodes with a label, and those that may be suggested.
    k
        How many to suggest, at most as many as there are in the pool.
    ridge
        The variance :math:`\rho > 0` of a label around what rows say of it.
    """
    known = rows[labelled]
    spread = np.linalg.inv(np.eye(rows.shape[1]) + known.T @ known / ridge)
    weighted = rows.T @ (weights[:, None] * rows)
    may, chosen, gains = np.asarray(pool), [], []
    for _ in range(min(k, len(may))):
        near = rows[may] @ spread
        variance = np.einsum("md,md->m", near, rows[may])
        gain = np.einsum("md,md->m", near @ weighted, near) / (variance + ridge)
        best = int(gain.argmax())
        chosen.append(int(may[best]))
        gains.append(float(gain[best]))
        spread -= np.outer(near[best], near[best]) / (variance[best] + ridge)
        may = np.delete(may, best)
    return np.array(chosen, dtype=np.int64), np.array(gains)


# --- suspects: Given labels that a fit without them contradicts: possible mistakes

UNLIKELY = 0.35
"""A given label is doubted below this part of what chance alone gives its class."""

SURE = 0.5
"""Least probability of the class that contradicts it."""


@dataclass(frozen=True, eq=False)
class Suspects:
    """Possible mistakes among the given labels, the likeliest first.

    Parameters
    ----------
    nodes
        Their numbers.
    given, predicted
        The class number that was given, and the one that is predicted without it.
    probability
        Calibrated probability of the predicted class.
    """

    nodes: np.ndarray
    given: np.ndarray
    predicted: np.ndarray
    probability: np.ndarray

    def __len__(self) -> int:
        return len(self.nodes)


def suspect_labels(held_out: HeldOut, calibrated: np.ndarray) -> Suspects:
    r"""Find judged nodes whose label a fit without it contradicts with confidence.

    The calibrated probability :math:`q` of hidden labels knows how often labels are wrong, so it
    is never far below the share :math:`\pi_c` of a class unless something speaks against a label.
    Doubted is a label with :math:`q < 0.35\,\pi_c` where another class has at least one half.

    Parameters
    ----------
    held_out
        The judged nodes.
    calibrated
        Calibrated probabilities of every node.
    """
    nodes = held_out.judged
    given, q = held_out.classes[nodes], calibrated[nodes]
    own, predicted = q[np.arange(len(nodes)), given], q.argmax(1)
    confidence = q.max(1)
    shares, _ = class_shares(np.bincount(given, minlength=q.shape[1]))
    found = np.flatnonzero((own < UNLIKELY * shares[given]) & (confidence >= SURE))
    order = found[np.argsort(own[found] - confidence[found], kind="stable")]
    return Suspects(nodes[order], given[order], predicted[order], confidence[order])


# --- conformal: Sets of classes with a promise: the true class is in at least :math:`1 - \alpha` o


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
