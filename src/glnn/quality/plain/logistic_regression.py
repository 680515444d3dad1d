"""Logistic regression on the features, by scikit-learn."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression

from glnn.quality.plain.base import ClosedForm, in_columns
from glnn.quality.plain.problem import NodeProblem
from glnn.quality.plain.scaling import scaled


@dataclass(frozen=True, kw_only=True)
class LogisticRegressionSettings:
    """The defaults of scikit-learn, with room to converge."""

    inverse_penalty: float = 1.0
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
        x = scaled(problem.features)
        classes = problem.labels[problem.train]
        return logistic_probabilities(x, problem.train, classes, problem.n_classes, self.settings)


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
    model = SklearnLogisticRegression(C=settings.inverse_penalty, max_iter=settings.max_iter)
    model.fit(x[nodes], classes)
    return in_columns(model.predict_proba(x), model.classes_, n_classes)
