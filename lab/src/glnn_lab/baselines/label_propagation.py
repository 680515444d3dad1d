"""Label propagation on the given graph or on nearest neighbours, by scikit-learn."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from sklearn.semi_supervised import LabelPropagation as SklearnPropagation

from glnn.quality.plain.base import ClosedForm
from glnn.quality.plain.label_spreading import fitted_distributions, kernel_of
from glnn.quality.plain.problem import NodeProblem


@dataclass(frozen=True, kw_only=True)
class LabelPropagationSettings:
    """The defaults of scikit-learn; the neighbours count where no graph is given."""

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
        """Spread the labels until they change no more."""
        s = self.settings
        model = SklearnPropagation(
            kernel=kernel_of(problem, s.n_neighbors), n_neighbors=s.n_neighbors, max_iter=s.max_iter
        )
        return fitted_distributions(model, problem)
