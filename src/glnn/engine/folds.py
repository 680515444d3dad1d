"""Folds of the labels: which of them are hidden together, and which train instead."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, TimeSeriesSplit

from glnn._utils import check_integer
from glnn.exceptions import InputError

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
