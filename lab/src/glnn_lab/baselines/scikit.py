"""Methods of scikit-learn: logistic regression, label propagation and spreading, random forest."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression as SklearnLogisticRegression
from sklearn.semi_supervised import LabelPropagation as SklearnPropagation
from sklearn.semi_supervised import LabelSpreading as SklearnSpreading

from glnn.quality.rivals import (
    PENALTIES,
    NodeProblem,
    expand_classes,
    make_kernel,
    scale_features,
    spread_labels,
)
from glnn_lab.baselines.base import ClosedForm

# Label propagation and spreading


@dataclass(frozen=True, kw_only=True)
class LabelPropagationSettings:
    """The defaults of scikit-learn; ``n_neighbors`` is used without a graph."""

    n_neighbors: int = 7
    max_iter: int = 1000


@dataclass(frozen=True)
class LabelPropagation(ClosedForm):
    r"""Harmonic labels, :math:`F \leftarrow D^{-1} A F` with the known rows put back each step.

    On the given graph with a loop at each node; without a graph, on nearest neighbours.
    """

    name: ClassVar[str] = "label_propagation"
    title: ClassVar[str] = "label propagation"
    paper: ClassVar[str] = "Zhu and Ghahramani, Learning from labeled and unlabeled data, 2002"
    needs_graph: ClassVar[bool] = False
    settings: LabelPropagationSettings = LabelPropagationSettings()

    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Propagate the labels until convergence."""
        s = self.settings
        model = SklearnPropagation(
            kernel=make_kernel(problem, s.n_neighbors),
            n_neighbors=s.n_neighbors,
            max_iter=s.max_iter,
        )
        return spread_labels(model, problem)


@dataclass(frozen=True, kw_only=True)
class LabelSpreadingSettings:
    """The defaults of scikit-learn; the neighbours count where no graph is given.

    ``alpha`` is the share that a node takes from its neighbours.
    """

    n_neighbors: int = 7
    max_iter: int = 100
    alpha: float = 0.2


@dataclass(frozen=True)
class LabelSpreading(ClosedForm):
    r"""Spread labels, :math:`F \leftarrow \alpha D^{-1/2} A D^{-1/2} F + (1 - \alpha) Y`.

    On the given graph; without one, on nearest neighbours.
    """

    name: ClassVar[str] = "label_spreading"
    title: ClassVar[str] = "label spreading"
    paper: ClassVar[str] = "Zhou et al., Learning with local and global consistency, NIPS 2003"
    needs_graph: ClassVar[bool] = False
    settings: LabelSpreadingSettings = LabelSpreadingSettings()

    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Spread the labels until they change no more."""
        s = self.settings
        model = SklearnSpreading(
            kernel=make_kernel(problem, s.n_neighbors),
            n_neighbors=s.n_neighbors,
            alpha=s.alpha,
            max_iter=s.max_iter,
        )
        return spread_labels(model, problem)


# Random forest


@dataclass(frozen=True, kw_only=True)
class RandomForestSettings:
    """The defaults of scikit-learn with more trees, since few labels give noisy trees."""

    n_trees: int = 500


@dataclass(frozen=True)
class RandomForest(ClosedForm):
    """Breiman's forest on unscaled features, since trees do not depend on the scale."""

    name: ClassVar[str] = "random_forest"
    title: ClassVar[str] = "random forest"
    paper: ClassVar[str] = "Breiman, Random forests, Machine Learning 2001"
    needs_graph: ClassVar[bool] = False
    settings: RandomForestSettings = RandomForestSettings()

    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Fit on the labelled nodes, predict all."""
        model = RandomForestClassifier(self.settings.n_trees, random_state=seed)
        model.fit(problem.features[problem.train], problem.labels[problem.train])
        probabilities = model.predict_proba(problem.features)
        return expand_classes(probabilities, model.classes_, problem.n_classes)


# Logistic regression

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
        return fit_logistic_regression(scale_features(problem.features), problem, self.settings)


def fit_logistic_regression(
    x: Any, problem: NodeProblem, settings: LogisticRegressionSettings
) -> np.ndarray:
    """Return the class probabilities of all rows of ``x`` after a fit on the labelled ones."""
    if settings.inverse_penalty is None:
        settings = dataclasses.replace(settings, inverse_penalty=choose_penalty(x, problem))
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
        return expand_classes(np.ones((x.shape[0], 1)), seen, n_classes)
    penalty = 1.0 if settings.inverse_penalty is None else settings.inverse_penalty
    model = SklearnLogisticRegression(C=penalty, max_iter=settings.max_iter)
    model.fit(x[nodes], classes)
    return expand_classes(model.predict_proba(x), model.classes_, n_classes)


def choose_penalty(x: Any, problem: NodeProblem) -> float:
    """Return the inverse penalty with the lowest loss on the validation nodes.

    Without validation nodes every third labelled node in turn is left out and predicted. A class
    that a fit has not seen counts as if it had probability 1e-6.
    """
    held = _split_train(problem)

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


def _split_train(problem: NodeProblem) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return pairs of nodes to fit on and nodes to predict."""
    if problem.validation.size:
        return [(problem.train, problem.validation)]
    by_class = problem.train[np.argsort(problem.labels[problem.train], kind="stable")]
    fold = np.arange(by_class.size) % N_FOLDS
    folds = [(by_class[fold != k], by_class[fold == k]) for k in range(N_FOLDS)]
    return [(nodes, asked) for nodes, asked in folds if nodes.size and asked.size]
