"""The same fit once more, without some of its labels."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from glnn.engine.labels import UNLABELLED
from glnn.engine.record import FitRecord
from glnn.quality.copies import unfitted
from glnn.quality.labels import without


def refitted(
    estimator: Any,
    fitted_to: tuple[Any, Any, Any, Any],
    record: FitRecord,
    hidden: Int[np.ndarray, "h"],
    seed: int,
    sample_weight: Any = None,
    calibrate: Any = None,
) -> Float[np.ndarray, "n c"]:
    """Fit a copy without the labels of some nodes; return the class probabilities of all.

    A class that has no label left to train on has probability zero, and its validation nodes take
    no part.

    Parameters
    ----------
    estimator
        The fitted classifier.
    fitted_to, sample_weight
        What it was fitted to: features, labels, graph, validation nodes; weights of rows.
    record
        Which labels it was given, and which of them trained.
    hidden
        The nodes whose labels are left out.
    seed
        Of the fit.
    calibrate
        How the copy calibrates; ``None``: raw probabilities are returned.
    """
    X, _, graph, validation = fitted_to
    labels, trains = record.labels.copy(), record.trains.copy()
    labels[hidden], trains[hidden] = UNLABELLED, False
    n_classes = len(estimator.classes_)
    is_left = np.isin(np.arange(n_classes), labels[trains])
    found = np.zeros((len(labels), n_classes))
    if is_left.sum() == 1:
        found[:, is_left] = 1.0
        return found
    if not is_left.all():
        gone = np.flatnonzero((labels >= 0) & ~is_left[labels])
        hidden, labels[gone] = np.union1d(hidden, gone), UNLABELLED
        judges = np.flatnonzero((labels >= 0) & ~trains)
        validation = judges if len(judges) else None
    own = {"random_state": seed, "calibrate": calibrate, "callbacks": None, "verbose": False}
    if isinstance(estimator.class_weight, Mapping):
        left = set(estimator.classes_[is_left].tolist())
        weights = estimator.class_weight.items()
        own["class_weight"] = {label: weight for label, weight in weights if label in left}
    model = unfitted(estimator, **own)
    seen = without(estimator.classes_, record.labels, hidden)
    model.fit(X, seen, graph, validation, sample_weight=sample_weight)
    found[:, is_left] = model.label_distributions_
    return found
