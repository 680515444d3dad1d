"""Without validation nodes, labels that are hidden in turn may choose the head."""

import dataclasses
from collections.abc import Callable

import numpy as np

from glnn.engine.classifier import Labels
from glnn.engine.committee import best_and_equals
from glnn.engine.problem import FitProblem
from glnn.engine.settings import FitSettings
from glnn.engine.trainer import Validation

N_FOLDS = 3

Fit = Callable[[FitProblem, FitSettings], np.ndarray]
"""Returns the class probabilities of the rows that are here."""


def chosen_by_folds(problem: FitProblem, settings: FitSettings, fit: Fit, seed: int) -> FitSettings:
    """Return the settings whose head does best on labels that its fits have not seen.

    Each alternative is fitted three times, without a third of the labels each; their predictions of
    those are compared as candidates are on validation nodes. The settings' own head stays unless
    it is told apart from the best. That takes three fits for each alternative.
    """
    alternatives = settings.alternatives()
    answers = [hidden_answers(problem, each, fit, seed) for each in alternatives]
    labels = problem.labels
    judged = Validation(labels.nodes, labels.classes, weights=labels.weights)
    kept = best_and_equals(answers, judged.local(problem.partition))
    return alternatives[0 if 0 in kept else next(iter(kept))]


def hidden_answers(problem: FitProblem, settings: FitSettings, fit: Fit, seed: int) -> np.ndarray:
    """Return the probabilities of labelled nodes by fits without their labels, 0 elsewhere."""
    partition, labels = problem.partition, problem.labels
    answers = np.zeros((partition.n_rows, labels.n_classes))
    for hidden in label_folds(labels, seed):
        known = labels.picked(np.setdiff1d(np.arange(len(labels)), hidden))
        found = fit(dataclasses.replace(problem, labels=known), settings)
        nodes = labels.nodes.numpy()[hidden]
        here = nodes[partition.has(nodes)] - partition.start
        answers[here] = found[here]
    return answers


def label_folds(labels: Labels, seed: int) -> list[np.ndarray]:
    """Return three parts of the labels, each with as many of every class as can be.

    Examples
    --------
    >>> labels = Labels(np.arange(9), np.arange(9) % 3, 9, 3)
    >>> [sorted((fold % 3).tolist()) for fold in label_folds(labels, 0)]
    [[0, 1, 2], [0, 1, 2], [0, 1, 2]]
    """
    classes = labels.classes.numpy()
    order = np.random.default_rng(seed).permutation(len(classes))
    by_class = order[np.argsort(classes[order], kind="stable")]
    parts = [np.sort(by_class[first::N_FOLDS]) for first in range(N_FOLDS)]
    return [part for part in parts if 0 < part.size < len(classes)]
