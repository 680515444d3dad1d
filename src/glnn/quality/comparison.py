"""Plain methods on the same folds: what a fit must beat to be worth its cost."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from glnn.quality.folds import Folds
from glnn.quality.held_out import hold_out
from glnn.quality.intervals import Interval, metric_intervals, paired_difference
from glnn.quality.metrics import Judged
from glnn.quality.plain import NodeProblem, comparable_features, get_plain

COMPARED = ("majority", "logistic_regression", "label_spreading", "knn_gcn")
"""Names of the plain methods, in the order in which they are shown."""


@dataclass(frozen=True, eq=False)
class MethodScore:
    """How a method judges labels that it has not seen.

    Parameters
    ----------
    name, title
        Its name in code, and for people.
    judged
        Its predictions beside the truth.
    metrics
        All metrics with their intervals.
    seconds
        What its fits took together.
    difference
        By how much the accuracy of the judged fit exceeds this method's, on the same nodes;
        ``None`` for the fit itself.
    """

    name: str
    title: str
    judged: Judged
    metrics: Mapping[str, Interval]
    seconds: float
    difference: Interval | None = None

    @classmethod
    def of(
        cls,
        name: str,
        title: str,
        judged: Judged,
        weights: np.ndarray,
        seconds: float,
        own: Judged | None = None,
    ) -> "MethodScore":
        """Measure predictions, and how far those of the judged fit are ahead of them.

        Parameters
        ----------
        name, title, judged, seconds
            As of the class.
        weights
            Bootstrap samples of the judged nodes.
        own
            Predictions of the judged fit; ``None`` if these are its own.
        """
        ahead = None if own is None else paired_difference(own, judged, weights)
        return cls(name, title, judged, metric_intervals(judged, weights), seconds, ahead)


def plain_scores(
    problem: NodeProblem,
    folds: Folds,
    own: Judged,
    weights: np.ndarray,
    *,
    names: Sequence[str] = COMPARED,
    seed: int = 0,
    watch: Callable[[str], None] | None = None,
) -> tuple[MethodScore, ...]:
    """Run plain methods on the folds of a fit.

    Parameters
    ----------
    problem
        Features, graph and the labels that may be seen; those of a fold are hidden in turn.
    folds
        The same as those of the fit.
    own
        Predictions of the fit at the nodes that the folds judge.
    weights
        Bootstrap samples of these nodes.
    names
        Of :data:`glnn.quality.plain.PLAIN_METHODS`.
    seed
        Of the methods that have randomness.
    watch
        Told the title of each method before it begins.
    """
    scores = []
    for name in names:
        method = get_plain(name)
        if watch is not None:
            watch(method.title)
        started = time.perf_counter()
        judged = _judged(problem, folds, name, seed)
        seconds = time.perf_counter() - started
        scores.append(MethodScore.of(name, method.title, judged, weights, seconds, own))
    return tuple(scores)


def _judged(problem: NodeProblem, folds: Folds, name: str, seed: int) -> Judged:
    features = comparable_features(problem.features)

    def refit(hidden: np.ndarray) -> np.ndarray:
        fewer = NodeProblem(
            features,
            problem.graph,
            problem.labels,
            np.setdiff1d(problem.train, hidden),
            problem.validation,
            problem.n_classes,
        )
        return get_plain(name).fit_predict(fewer, seed).probabilities

    held_out = hold_out(refit, problem.labels, folds)
    nodes = held_out.judged
    return Judged(held_out.classes[nodes], held_out.probabilities[nodes])
