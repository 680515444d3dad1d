"""Labels: class numbers of the rows, rows without a label, and folds that hide labels."""

import numbers
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, TimeSeriesSplit
from sklearn.utils import column_or_1d

from glnn._utils import check_indices, check_integer
from glnn.data.arguments import convert_labels
from glnn.exceptions import InputError

# Class numbers

UNLABELLED = -1  # class number of a node without a label


def encode_targets(y: Any, n_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes and the class number of every node, -1 where unlabelled.

    In ``y``, ``-1`` marks an unlabelled node among numbers; ``None``, NaN, ``""`` or ``"-1"``
    among text and objects.

    Examples
    --------
    >>> encode_targets(["cat", "", "ant", " cat"], 4)
    (array(['ant', 'cat'], dtype='<U4'), array([ 1, -1,  0,  1]))
    """
    labels = as_labels(y)
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = column_or_1d(labels, warn=True)
    if labels.shape != (n_nodes,):
        raise InputError(
            f"y must have one label for each of the {n_nodes} rows of X, got shape {labels.shape}. "
            "Mark unlabelled rows with -1."
        )
    known = ~is_unlabelled(labels)
    if not known.any():
        raise InputError("y must label at least two classes, got no label at all.")
    try:
        classes, numbers = np.unique(labels[known], return_inverse=True)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels[known]})
        raise InputError(
            f"y must hold labels of one sortable type, got {', '.join(kinds)}."
        ) from None
    if len(classes) < 2:
        only, hint = classes.tolist()[0], ""
        if np.isin(labels[~known].astype(np.str_), ["-1", "-1.0"]).any():
            hint = " -1 marks unlabelled rows: if it is a class, rename it, as in "
            hint += "np.where(y < 0, 0, 1)."
        raise InputError(f"y must label at least two classes, got one class only ({only!r}).{hint}")
    encoded = np.full(n_nodes, UNLABELLED, dtype=np.int64)
    encoded[known] = numbers
    return classes, encoded


def as_labels(y: Any) -> np.ndarray:
    """Return labels as an array, with surrounding blanks removed from text.

    Missing values of pandas become ``None``, or -1 among integers.

    Examples
    --------
    >>> as_labels(["loyal", " loyal", None])
    array(['loyal', 'loyal', None], dtype=object)
    >>> as_labels([3, None, 5])
    array([ 3, -1,  5])
    """
    try:
        labels = np.asarray(convert_labels(y))
    except ValueError:
        raise InputError("y must hold one label for each row, got lists of several.") from None
    if labels.dtype.kind == "U":
        return np.strings.strip(labels)
    if labels.dtype.kind != "O" or labels.ndim != 1:
        return labels
    known = [label for label in labels if label is not None]
    if known and all(isinstance(k, numbers.Integral) and not isinstance(k, bool) for k in known):
        return np.array([UNLABELLED if label is None else int(label) for label in labels])
    found = np.empty(len(labels), dtype=object)
    found[:] = [label.strip() if isinstance(label, str) else label for label in labels]
    return found


def split_labels(
    encoded: np.ndarray, validation: Any, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Split the labelled nodes into training nodes and validation nodes.

    ``validation`` holds node numbers or is a mask; ``None`` leaves every labelled node in the
    training set. Every class must keep at least one training label.
    """
    labelled = np.flatnonzero(encoded != UNLABELLED)
    held = check_indices("validation", () if validation is None else validation, len(encoded))
    n_bad = int((encoded[held] == UNLABELLED).sum())
    if n_bad:
        raise InputError(f"validation must name labelled rows, got {n_bad} without a label.")
    train = np.setdiff1d(labelled, held)
    n_left = np.unique(encoded[train]).size
    if n_left < n_classes:
        raise InputError(
            f"y must leave training labels of all {n_classes} classes outside validation, "
            f"got {n_left}."
        )
    return train, held


def warn_of_class_minus_one(y: Any) -> None:
    """Warn if ``y`` holds -1, 0 and 1, and -1 is no more frequent than 0 and 1 on average."""
    if not isinstance(y, Sequence | np.ndarray | pd.Series):
        return
    labels = np.asarray(y)
    if labels.dtype.kind not in "if" or not np.isin(labels, (-1, 0, 1)).all():
        return
    counts = [int((labels == value).sum()) for value in (-1, 0, 1)]
    if counts[0] and 2 * counts[0] <= counts[1] + counts[2]:
        warnings.warn(
            "y holds -1, 0 and 1, and -1 is read as 'no label'. If it is a class, rename the "
            "classes, as in y + 1; if not, None in place of -1 silences this.",
            stacklevel=3,
        )


def is_unlabelled(labels: np.ndarray) -> np.ndarray:
    """Return the mask of the labels that mean "no label"."""
    if labels.dtype.kind == "f":
        if np.isinf(labels).any():
            raise InputError("y must hold finite labels, got infinity.")
        if (np.nan_to_num(labels) % 1 != 0).any():
            raise InputError(
                "y must hold classes, got continuous values: Unknown label type: continuous. "
                "Bin them first."
            )
    if labels.dtype.kind in "fiub":
        return np.asarray(np.isnan(labels) | (labels == UNLABELLED))
    if labels.dtype.kind == "U":
        return np.isin(labels, ["", "-1", "nan"])  # NumPy makes "nan" of NaN among text
    if labels.dtype.kind == "O":
        marks = [isinstance(label, int | str) and label in (-1, "", "-1") for label in labels]
        return np.asarray(pd.isna(labels) | np.array(marks, dtype=bool))
    raise InputError(f"y must hold whole numbers or text, got dtype {labels.dtype}.")


# Folds: which labels are hidden together, and which train instead

N_FOLDS = 5  # unless another number is asked for; up to so many are made of any labels


@dataclass(frozen=True, eq=False)
class Folds:
    """Groups of labelled nodes that are hidden together, with one training for each."""

    hidden: tuple[np.ndarray, ...]  # node numbers of each fold
    seen: tuple[np.ndarray, ...]  # labelled nodes that train while those are hidden
    single: np.ndarray  # classes with one label, which is never hidden
    is_repeated: bool = False  # whether a class has fewer labels than folds

    def __len__(self) -> int:
        return len(self.hidden)

    @property
    def nodes(self) -> np.ndarray:
        """Sorted numbers of all nodes that are hidden at least once."""
        return np.unique(np.concatenate(self.hidden))


def make_folds(
    classes: np.ndarray, n_folds: int, seed: int, groups: Any = None, times: Any = None
) -> Folds:
    """Split the labelled nodes into folds.

    Classes with at least ``n_folds`` labels are split by scikit-learn's ``StratifiedKFold``. In a
    class with fewer labels (at least two) each fold hides one label, in turn. Above five folds the
    number is limited to the number of labels of the largest class: more folds would only repeat
    trainings. A fold never hides a single label alone, because its class could be guessed.

    ``classes`` is -1 for nodes that have no label or must not be hidden. With ``groups``, a value
    for each node, all labels of a group are hidden together. With ``times``, a fold is predicted
    from earlier labels alone.

    Examples
    --------
    >>> folds = make_folds(np.array([0, 0, 0, 1, 1, 1, 2, -1]), 3, seed=0)
    >>> folds.nodes.tolist(), folds.single.tolist(), [len(nodes) for nodes in folds.hidden]
    ([0, 1, 2, 3, 4, 5], [2], [2, 2, 2])
    """
    check_integer("folds", n_folds, low=2)
    if groups is not None and times is not None:
        raise InputError("groups and times exclude each other. Leave one of them out.")
    if groups is not None:
        return _group_folds(classes, n_folds, seed, _check_values("groups", groups, classes))
    if times is not None:
        return _time_folds(classes, n_folds, _check_values("times", times, classes))
    numbers, counts = np.unique(classes[classes >= 0], return_counts=True)
    if not (counts >= 2).any():
        raise InputError(
            f"too few labels to tell: {len(numbers)}. Folds must hide labels of classes that have "
            f"another one, got one label in each of {len(numbers)} classes. Label more rows, two "
            "of a class at least."
        )
    rng = np.random.default_rng(seed)
    n_folds = min(n_folds, max(N_FOLDS, int(counts.max())))
    common, rare = numbers[counts >= n_folds], numbers[(counts >= 2) & (counts < n_folds)]
    parts = [[np.empty(0, np.int64)] for _ in range(n_folds)]
    if common.size:
        nodes = np.flatnonzero(np.isin(classes, common))
        splitter = StratifiedKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
        for part, (_, places) in zip(parts, splitter.split(nodes, classes[nodes])):
            part.append(nodes[places])
    for number in rare:
        turn = rng.permutation(np.flatnonzero(classes == number))
        for fold, part in enumerate(parts):
            part.append(turn[[fold % len(turn)]])
    hidden = tuple(np.sort(np.concatenate(part)) for part in parts)
    known = np.flatnonzero(classes >= 0)
    seen = tuple(np.setdiff1d(known, nodes) for nodes in hidden)
    return Folds(hidden, seen, numbers[counts == 1], bool(rare.size))


def _check_values(name: str, values: Any, classes: np.ndarray) -> np.ndarray:
    """Return groups or times of all nodes as numbers in their own order."""
    array = np.asarray(values)
    if array.shape != classes.shape:
        raise InputError(
            f"{name} must have one value for each of the {len(classes)} rows, got shape "
            f"{array.shape}."
        )
    known = array[classes >= 0]
    if any(value is None or value != value or value == "" for value in known.tolist()):
        raise InputError(f"{name} must have a value for every labelled row, got an empty one.")
    numbers = np.zeros(len(array), dtype=np.int64)
    try:
        numbers[classes >= 0] = np.unique(known, return_inverse=True)[1]
    except TypeError:
        raise InputError(f"{name} must hold values of one kind, got a mixture.") from None
    return numbers


def _group_folds(classes: np.ndarray, n_folds: int, seed: int, groups: np.ndarray) -> Folds:
    known = np.flatnonzero(classes >= 0)
    n_groups = len(np.unique(groups[known]))
    if n_groups < 2:
        raise InputError(
            "groups must have at least two different values among the labelled rows, got one."
        )
    n_folds = min(n_folds, n_groups, int(np.bincount(classes[known]).max()))
    parts = []
    if n_folds > 1:
        splitter = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
        with warnings.catch_warnings():  # of classes with fewer labels than folds
            warnings.simplefilter("ignore", UserWarning)
            split = list(splitter.split(known, classes[known], groups[known]))
        parts = [(known[seen], known[hidden]) for seen, hidden in split]
    return _keep_useful(classes, parts, "groups")


def _time_folds(classes: np.ndarray, n_folds: int, times: np.ndarray) -> Folds:
    known = np.flatnonzero(classes >= 0)
    known = known[np.argsort(times[known], kind="stable")]
    parts = []
    if len(known) > 2:
        for _, places in TimeSeriesSplit(min(n_folds, len(known) - 1)).split(known):
            hidden = known[places]
            parts.append((known[times[known] < times[hidden].min()], hidden))
    return _keep_useful(classes, parts, "times")


def _keep_useful(
    classes: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]], name: str
) -> Folds:
    """Return folds of the pairs (seen, hidden) whose seen labels are of two classes or more."""
    kept = [
        (np.sort(seen), np.sort(hidden))
        for seen, hidden in parts
        if hidden.size and len(np.unique(classes[seen])) > 1
    ]
    if not kept:
        raise InputError(
            f"{name} must leave labels of two classes to train on while others are hidden, got "
            f"labels that do not. Label more rows, or leave {name} out."
        )
    seen, hidden = zip(*kept)
    return Folds(tuple(hidden), tuple(seen), np.empty(0, np.int64))
