"""Label propagation and random forest by scikit-learn."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.semi_supervised import LabelPropagation as SklearnPropagation

from glnn.quality.rivals import (
    ClosedForm,
    NodeProblem,
    expand_classes,
    fit_distributions,
    make_kernel,
)


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
        return fit_distributions(model, problem)


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
