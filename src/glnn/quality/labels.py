"""Labels as a fit is shown them, some of them hidden."""

from typing import Any

import numpy as np

from glnn.engine.labels import UNLABELLED, as_labels, is_unlabelled


def named_labels(classes: np.ndarray, encoded: np.ndarray) -> np.ndarray:
    """Return labels by class number; unlabelled is -1 for numbers and ``None`` for the rest.

    Examples
    --------
    >>> named_labels(np.array(["a", "b"]), np.array([1, -1]))
    array(['b', None], dtype=object)
    """
    known = encoded >= 0
    if classes.dtype.kind in "if":
        return np.where(known, classes[encoded], UNLABELLED)
    named = np.full(len(encoded), None, dtype=object)
    named[known] = classes[encoded[known]]
    return named


def without(classes: np.ndarray, encoded: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Return the labels with those of some nodes hidden.

    Examples
    --------
    >>> without(np.array([5, 7]), np.array([0, 1, 1]), np.array([2]))
    array([ 5,  7, -1])
    """
    fewer = encoded.copy()
    fewer[hidden] = UNLABELLED
    return named_labels(classes, fewer)


def labelled_rows(y: Any) -> np.ndarray:
    """Return which rows have a label, as a mask; what counts as none is said in ``fit``.

    Examples
    --------
    >>> labelled_rows(["a", "", "b"])
    array([ True, False,  True])
    """
    return np.asarray(~is_unlabelled(as_labels(y)))
