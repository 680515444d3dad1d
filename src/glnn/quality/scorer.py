"""Scikit-learn's scores for data of which some rows have no label."""

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.utils import _safe_indexing

from glnn.engine.labels import as_labels
from glnn.exceptions import InputError
from glnn.quality.labels import labelled_rows

Scorer = Callable[[Any, Any, Any], float]


def labelled_scorer(scoring: str = "accuracy") -> Scorer:
    """Return one of scikit-learn's scorers that leaves rows without a label out.

    Parameters
    ----------
    scoring
        Its name, such as ``accuracy``, ``balanced_accuracy``, ``f1_macro`` or ``neg_log_loss``.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> constant = DummyClassifier(strategy="constant", constant=1).fit([[0], [0]], [0, 1])
    >>> labelled_scorer()(constant, np.zeros((3, 1)), np.array([1, -1, 1]))
    1.0
    """
    scorer = get_scorer(scoring)

    def score(estimator: Any, X: Any, y: Any) -> float:
        known = np.flatnonzero(labelled_rows(y))
        if not known.size:
            raise InputError("a score needs rows with a label, got none.")
        labels = as_labels(y)[known]
        return float(
            scorer(estimator, _safe_indexing(X, known), labels.astype(estimator.classes_.dtype))
        )

    return score
