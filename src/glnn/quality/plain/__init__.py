"""Plain methods that every fit can be compared with, by name; they need no further package."""

from glnn._validation import check_choice
from glnn.quality.plain.base import Baseline, ClosedForm, Prediction, TrainSettings
from glnn.quality.plain.knn_gcn import KnnGCN
from glnn.quality.plain.label_spreading import LabelSpreading
from glnn.quality.plain.logistic_regression import LogisticRegression
from glnn.quality.plain.majority import Majority
from glnn.quality.plain.problem import NodeProblem
from glnn.quality.plain.scaling import comparable_features

PLAIN_METHODS: dict[str, Baseline] = {
    method.name: method for method in (Majority(), LogisticRegression(), LabelSpreading(), KnnGCN())
}


def get_plain(name: str) -> Baseline:
    """Return a plain method; an unknown name is answered with the nearest known one.

    Examples
    --------
    >>> get_plain("majority").title
    'majority class'
    """
    return PLAIN_METHODS[check_choice("method", name, PLAIN_METHODS)]


__all__ = [
    "PLAIN_METHODS",
    "Baseline",
    "ClosedForm",
    "NodeProblem",
    "Prediction",
    "TrainSettings",
    "comparable_features",
    "get_plain",
]
