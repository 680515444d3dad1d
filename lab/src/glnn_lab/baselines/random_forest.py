"""A random forest on the features, by scikit-learn."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.ensemble import RandomForestClassifier

from glnn.quality.plain.base import ClosedForm, in_columns
from glnn.quality.plain.problem import NodeProblem


@dataclass(frozen=True, kw_only=True)
class RandomForestSettings:
    """The defaults of scikit-learn, with more trees: few labels make single trees shaky."""

    n_trees: int = 500


@dataclass(frozen=True)
class RandomForest(ClosedForm):
    """Breiman's forest; trees do not care about the scale of a column, so none is changed."""

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
        return in_columns(probabilities, model.classes_, problem.n_classes)
