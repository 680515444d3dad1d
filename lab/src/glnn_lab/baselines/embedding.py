"""Classes from an embedding: logistic regression whose penalty the visible labels choose."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from glnn.quality.plain.logistic_regression import (
    LogisticRegressionSettings,
    logistic_probabilities,
)
from glnn.quality.plain.problem import NodeProblem

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
N_FOLDS = 3


def embedding_logits(z: np.ndarray, problem: NodeProblem, penalty: float | None) -> Tensor:
    """Fit on the labelled nodes' embedding; return log-probabilities of every node.

    Without a given inverse penalty :func:`chosen_penalty` finds one.
    """
    settings = LogisticRegressionSettings(
        inverse_penalty=chosen_penalty(z, problem) if penalty is None else penalty
    )
    classes = problem.labels[problem.train]
    probabilities = logistic_probabilities(z, problem.train, classes, problem.n_classes, settings)
    return torch.from_numpy(probabilities).clamp_min(1e-30).log()


def chosen_penalty(x: Any, problem: NodeProblem) -> float:
    """Return the inverse penalty with the lowest loss on the validation nodes.

    Without validation nodes every third labelled node in turn is left out and predicted. A class
    that a fit has not seen counts as if it had probability 1e-6.
    """
    held = _held_out(problem)

    def loss(penalty: float) -> float:
        total = 0.0
        for nodes, asked in held:
            p = logistic_probabilities(
                x[np.concatenate([nodes, asked])],
                np.arange(nodes.size),
                problem.labels[nodes],
                problem.n_classes,
                LogisticRegressionSettings(inverse_penalty=penalty),
            )[nodes.size :]
            of_truth = p[np.arange(asked.size), problem.labels[asked]]
            total -= float(np.log(np.maximum(of_truth, 1e-6)).sum())
        return total

    return min(PENALTIES, key=loss)


def _held_out(problem: NodeProblem) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs of nodes to fit on and nodes to predict."""
    if problem.validation.size:
        return [(problem.train, problem.validation)]
    by_class = problem.train[np.argsort(problem.labels[problem.train], kind="stable")]
    fold = np.arange(by_class.size) % N_FOLDS
    folds = [(by_class[fold != k], by_class[fold == k]) for k in range(N_FOLDS)]
    return [(nodes, asked) for nodes, asked in folds if nodes.size and asked.size]
