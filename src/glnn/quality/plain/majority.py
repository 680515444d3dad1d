"""The largest class for everybody: what a method must beat to have learned anything."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from glnn.quality.plain.base import ClosedForm
from glnn.quality.plain.problem import NodeProblem


@dataclass(frozen=True, kw_only=True)
class MajoritySettings:
    """Nothing to set."""


@dataclass(frozen=True)
class Majority(ClosedForm):
    r"""Every node gets the shares of the classes, :math:`p_c = |\{l \in L : y_l = c\}| / |L|`.

    The class with the most labels is predicted; of equally large ones the first.
    """

    name: ClassVar[str] = "majority"
    title: ClassVar[str] = "majority class"
    paper: ClassVar[str] = "the largest class among the labels"
    needs_graph: ClassVar[bool] = False
    settings: MajoritySettings = MajoritySettings()

    def predict(self, problem: NodeProblem, seed: int) -> np.ndarray:
        """Count the labels of the training nodes."""
        return np.tile(class_shares(problem), (problem.n_nodes, 1))


def class_shares(problem: NodeProblem) -> np.ndarray:
    """Return the share of each class among the training nodes.

    Examples
    --------
    >>> problem = NodeProblem(np.eye(3), None, np.array([0, 1, 1]), np.arange(3))
    >>> class_shares(problem).round(2)
    array([0.33, 0.67])
    """
    counts = np.bincount(problem.labels[problem.train], minlength=problem.n_classes)
    return np.asarray(counts / counts.sum())
