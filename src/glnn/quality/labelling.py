r"""Label suggestions (active learning), suspect labels and conformal prediction sets.

Suggestions minimise the variance of ridge regression of the classes on the rows :math:`z_i` of the
nodes (:func:`query_rows`). With ridge :math:`\rho` the covariance of the predictions is

.. math:: \Sigma_{ij} = z_i^\top M z_j, \qquad
          M = \Bigl(I + \tfrac{1}{\rho} \textstyle\sum_{l} z_l z_l^\top\Bigr)^{-1},

summed over the labelled nodes :math:`l`. A label at :math:`v` would reduce the variance of node
:math:`i` by :math:`\Sigma_{iv}^2 / (\Sigma_{vv} + \rho)`. The node with the largest total reduction
is suggested first, where each node is weighted by :func:`uncertainty_weight`; it then counts as
labelled. So suggestions do not repeat each other, and outliers are suggested last.
"""

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import entr

from glnn._utils import check_number
from glnn.exceptions import InputError
from glnn.quality.calibration import temper
from glnn.quality.explain import FittedNodes, center_and_normalize
from glnn.quality.folds import HeldOut

# Suggestions of labels

_RIDGE = 1.0  # noise variance of a label


def uncertainty_weight(probabilities: Float[np.ndarray, "n c"]) -> Float[np.ndarray, "n"]:
    r"""Return the weight of each node's variance: its uncertainty plus the mean uncertainty.

    The uncertainty is the normalised entropy :math:`-\sum_c p_c \ln p_c / \ln C`, from 0 to 1.
    Networks are often confident about nodes that they get wrong, so half of the total weight is
    spread evenly over all nodes.
    """
    own = entr(probabilities).sum(1) / np.log(probabilities.shape[1])
    return np.asarray(own + own.mean())


def query_rows(embedding: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n e"]:
    """Return the rows of a ranking: the centred embedding at length one, with a constant column.

    The constant has the same weight as the rest. Without it a label would count as much for the
    nodes in the opposite direction as for those nearby, although their class is another one. With
    few columns half of the table would then pass for known, and the labels would pile up where
    classes overlap.
    """
    rows = center_and_normalize(embedding)
    return np.asarray(np.column_stack([rows, np.ones(len(rows))]) / np.sqrt(2))


class QueryRanking:
    r"""The variance reductions of labels, updated as labels come and go.

    ``rows`` are :math:`z_i`, ``weights`` those of the variance of each node,
    ``labelled`` the nodes with a label.
    """

    def __init__(
        self,
        rows: Float[np.ndarray, "n d"],
        weights: Float[np.ndarray, "n"],
        labelled: Int[np.ndarray, "l"],
    ) -> None:
        known = rows[labelled]
        covariance = np.linalg.inv(np.eye(rows.shape[1]) + known.T @ known / _RIDGE)
        self._rows = rows
        self._near = rows @ covariance
        self._spread = self._near @ (rows.T @ (weights[:, None] * rows))
        self.labelled = set(labelled.tolist())

    @property
    def size(self) -> int:
        """Number of numbers in the rows."""
        return self._rows.size

    def set_labelled(self, nodes: Set[int]) -> None:
        """Count exactly these nodes as labelled from now on."""
        # first those that are taken back, which is the update with the noise -ridge
        for node in sorted(self.labelled ^ nodes, key=lambda node: (node in nodes, node)):
            ridge = _RIDGE if node in nodes else -_RIDGE
            parts = self._rows, self._near, self._spread
            self._near, self._spread = _count_label(*parts, node, ridge)
        self.labelled = set(nodes)

    def select(
        self, pool: Int[np.ndarray, "m"], k: int
    ) -> tuple[Int[np.ndarray, "k"], Float[np.ndarray, "k"]]:
        """Select the ``k`` nodes of the pool to label, best first, and their reductions."""
        may, chosen, gains = np.asarray(pool), [], []
        own, near, spread = self._rows[may], self._near[may], self._spread[may]
        is_free = np.ones(len(may), dtype=bool)
        for _ in range(min(k, len(may))):
            variance = np.einsum("md,md->m", near, own)
            gain = np.einsum("md,md->m", spread, near) / (variance + _RIDGE)
            best = int(np.where(is_free, gain, -np.inf).argmax())
            chosen.append(int(may[best]))
            gains.append(float(gain[best]))
            is_free[best] = False
            near, spread = _count_label(own, near, spread, best, _RIDGE)
        return np.array(chosen, dtype=np.int64), np.array(gains)


def _count_label(
    rows: np.ndarray, near: np.ndarray, spread: np.ndarray, node: int, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """Count a node as labelled: its outer product leaves the covariance."""
    share = rows @ near[node] / (near[node] @ rows[node] + ridge)
    return near - np.outer(share, near[node]), spread - np.outer(share, spread[node])


def rank_nodes(nodes: FittedNodes) -> QueryRanking:
    """Return the ranking of the nodes of a fit."""
    weights = uncertainty_weight(nodes.probabilities)
    return QueryRanking(query_rows(nodes.embedding()), weights, np.flatnonzero(nodes.labels >= 0))


def suggest_nodes(
    nodes: FittedNodes, k: int, among: np.ndarray | None = None
) -> tuple[Int[np.ndarray, "k"], Float[np.ndarray, "k"]]:
    """Return the unlabelled nodes of a fit to label next, best first, and their gains."""
    pool = np.flatnonzero(nodes.labels < 0)
    return rank_nodes(nodes).select(pool if among is None else np.intersect1d(among, pool), k)


# Suspect labels

_MIN_CHANCE = 0.18  # smallest chance of a mistake with which a label is listed


def suspect_labels(held_out: HeldOut, calibrated: np.ndarray) -> tuple[Int[np.ndarray, "s"], float]:
    r"""Return the nodes whose labels may be mistakes, and the estimated number of mistakes.

    Their hidden labels disagree with the model; the most suspect one comes first.

    In the model of :mod:`glnn.quality.calibration` a label follows the tempered prediction
    :math:`r` with probability :math:`1 - \lambda` and is drawn from the class shares
    :math:`\pi` otherwise. A label of class :math:`c` is therefore a mistake with probability

    .. math:: \frac{\lambda \pi_c (1 - r_c)}{(1 - \lambda) r_c + \lambda \pi_c},

    and the sum over all labels estimates the number of mistakes. Where classes are hard to tell
    apart, the tempered predictions are unsure, and disagreement with them is no sign of a mistake.
    Labels with a probability above 0.18 are listed if another class is predicted. Often there is
    none. On tables with planted mistakes they were about as many as the mistakes; the estimate,
    which the prior makes careful, was about two thirds of them.
    """
    nodes, found = held_out.hidden_nodes, held_out.calibration()
    given = held_out.classes[nodes]
    tempered = temper(held_out.probabilities[nodes], found.exponent)
    own = tempered[np.arange(len(nodes)), given]
    at_random = found.mixture * found.prior[given]
    chance = at_random * (1 - own) / ((1 - found.mixture) * own + at_random)
    listed = np.flatnonzero((calibrated[nodes].argmax(1) != given) & (chance > _MIN_CHANCE))
    order = listed[np.argsort(-chance[listed], kind="stable")]
    return nodes[order], float(chance.sum())


# Conformal prediction sets

_FEW_LABELS = 10  # per class


@dataclass(frozen=True, eq=False)
class ConformalSets:
    """Conformal prediction sets, calibrated with hidden labels."""

    scores: np.ndarray  # sorted nonconformity scores of the true classes of the hidden labels
    n_classes: int

    @classmethod
    def of(cls, held_out: HeldOut) -> "ConformalSets":
        """Compute the scores of the hidden labels."""
        nodes = held_out.hidden_nodes
        scores = nonconformity(held_out.probabilities[nodes])
        own = scores[np.arange(len(nodes)), held_out.classes[nodes]]
        return cls(np.sort(own), scores.shape[1])

    @property
    def note(self) -> str | None:
        """A remark if there are few labels; ``None`` otherwise."""
        if len(self.scores) >= _FEW_LABELS * self.n_classes:
            return None
        return (
            f"fewer than {_FEW_LABELS} hidden labels a class ({len(self.scores)} labels, "
            f"{self.n_classes} classes): sets contain the true class less or more often than asked"
        )

    def p_values(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the conformal p-value of every node and class."""
        n_scores = len(self.scores)
        at_least = n_scores - np.searchsorted(self.scores, nonconformity(probabilities))
        return np.asarray((1 + at_least) / (1 + n_scores))

    def contains(self, probabilities: np.ndarray, alpha: float) -> np.ndarray:
        """Return which classes are in the set of each node, nodes x classes.

        ``probabilities`` are raw; a fraction ``alpha`` of the sets may miss the true class.
        """
        check_number("alpha", alpha, low=0, high=0.99, open_low=True)
        fewest = int(np.ceil(2 / alpha)) - 1
        if len(self.scores) < fewest:
            raise InputError(
                f"sets with alpha={alpha:g} need at least {fewest} hidden labels, got "
                f"{len(self.scores)}. Label more rows, or use a larger alpha."
            )
        return np.asarray(self.p_values(probabilities) > alpha)


def nonconformity(probabilities: np.ndarray) -> np.ndarray:
    r"""Return the scores :math:`\max_{d \ne c} \ln p_d - \ln p_c` of every class :math:`c`."""
    logs = np.log(np.maximum(np.asarray(probabilities, dtype=np.float64), 1e-300))
    second, first = np.sort(logs, axis=1)[:, -2:, None].swapaxes(0, 1)
    is_best = np.arange(logs.shape[1]) == logs.argmax(1)[:, None]
    return np.asarray(np.where(is_best, second, first) - logs)
