"""Logistic regression on the features, by scikit-learn."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression

from glnn.quality.plain.base import ClosedForm, in_columns
from glnn.quality.plain.problem import NodeProblem
from glnn.quality.plain.scaling import scaled

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
N_FOLDS = 3


@dataclass(frozen=True, kw_only=True)
class LogisticRegressionSettings:
    """The inverse penalty, ``None``: the visible labels choose it; and room to converge."""

    inverse_penalty: float | None = None
    max_iter: int = 2000


@dataclass(frozen=True)
class LogisticRegression(ClosedForm):
    """Multinomial logistic regression; dense features standardised, sparse rows of length 1."""

    name: ClassVar[str] = "logistic_regression"
    title: ClassVar[str] = "logistic regression"
    paper: ClassVar[str] = "scikit-learn LogisticRegression"
    needs_graph: ClassVar[bool] = False
    settings: LogisticRegressionSettings = LogisticRegressionSettings()

    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Fit on the labelled nodes, predict all."""
        return fitted_to(scaled(problem.features), problem, self.settings)


def fitted_to(x: Any, problem: NodeProblem, settings: LogisticRegressionSettings) -> np.ndarray:
    """Return the class probabilities of all rows of ``x`` after a fit on the labelled ones."""
    if settings.inverse_penalty is None:
        settings = dataclasses.replace(settings, inverse_penalty=chosen_penalty(x, problem))
    classes = problem.labels[problem.train]
    return logistic_probabilities(x, problem.train, classes, problem.n_classes, settings)


def logistic_probabilities(
    x: Any,
    nodes: np.ndarray,
    classes: np.ndarray,
    n_classes: int,
    settings: LogisticRegressionSettings,
) -> np.ndarray:
    """Return the class probabilities of all rows after a fit on some; one class is certain."""
    seen = np.unique(classes)
    if seen.size == 1:  # scikit-learn refuses a single class
        return in_columns(np.ones((x.shape[0], 1)), seen, n_classes)
    penalty = 1.0 if settings.inverse_penalty is None else settings.inverse_penalty
    model = SklearnLogisticRegression(C=penalty, max_iter=settings.max_iter)
    model.fit(x[nodes], classes)
    return in_columns(model.predict_proba(x), model.classes_, n_classes)


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
