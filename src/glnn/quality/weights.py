"""How much each label counts: class weights and sample weights together."""

from typing import Any

import numpy as np

from glnn.exceptions import InputError


def class_weights(class_weight: Any, classes: np.ndarray, encoded: np.ndarray) -> np.ndarray | None:
    r"""Return the weight of every class, or ``None`` where all count the same.

    ``balanced`` is scikit-learn's :math:`n / (C n_c)`.

    Parameters
    ----------
    class_weight
        ``None``, ``"balanced"``, or a number for each label; labels that are left out count 1.
    classes
        The labels, sorted.
    encoded
        Class number of the labelled nodes.

    Examples
    --------
    >>> class_weights("balanced", np.array(["a", "b"]), np.array([0, 0, 0, 1]))
    array([0.66666667, 2.        ])
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, dict):
        known = classes.tolist()
        unknown = [label for label in class_weight if label not in known]
        if unknown:
            raise InputError(f"class_weight must name labels of y, got {unknown[0]!r}.")
        found = np.array([class_weight.get(label, 1.0) for label in known], dtype=np.float64)
    elif class_weight == "balanced":
        counts = np.bincount(encoded, minlength=len(classes))
        found = len(encoded) / (np.count_nonzero(counts) * np.maximum(counts, 1))
    else:
        raise InputError(
            f"class_weight must be None, 'balanced' or a dictionary, got {class_weight!r}."
        )
    if not (np.isfinite(found) & (found >= 0)).all() or not found.any():
        raise InputError(
            f"class_weight must hold finite weights of at least 0, got {class_weight}."
        )
    return np.asarray(found)


def label_weights(
    class_weight: Any, sample_weight: Any, classes: np.ndarray, encoded: np.ndarray
) -> np.ndarray | None:
    """Return the weight of every node's label, or ``None`` where all count the same.

    Parameters
    ----------
    class_weight
        As in :func:`class_weights`.
    sample_weight
        One weight a node, or ``None``.
    classes, encoded
        The labels, and every node's class number, -1 where there is none.
    """
    by_class = class_weights(class_weight, classes, encoded[encoded >= 0])
    if by_class is None and sample_weight is None:
        return None
    weights = np.ones(len(encoded)) if sample_weight is None else _checked(sample_weight, encoded)
    return weights if by_class is None else weights * by_class[encoded]


def _checked(sample_weight: Any, encoded: np.ndarray) -> np.ndarray:
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError("sample_weight must hold numbers, got others.") from None
    if weights.shape != encoded.shape:
        raise InputError(
            f"sample_weight must hold one weight for each of the {len(encoded)} rows, got shape "
            f"{weights.shape}."
        )
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if bad.size:
        raise InputError(
            f"sample_weight must hold finite weights of at least 0, got {weights[bad[0]]:g} in row "
            f"{bad[0]}."
        )
    if not weights[encoded >= 0].any():
        raise InputError(
            "sample_weight must leave a label that counts, got a weight of zero for all of them."
        )
    return weights
