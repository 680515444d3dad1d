"""Which labels are hidden together, so that every label can be judged unseen."""

from dataclasses import dataclass

import numpy as np
from sklearn.model_selection import StratifiedKFold

from glnn._validation import check_integer
from glnn.exceptions import InputError

_REPEATED = 5
"""Folds that may hide a label more than once, where labels are few."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Groups of labelled nodes that are hidden together, one fit for each.

    Parameters
    ----------
    hidden
        Node numbers, one array for each fold.
    single
        Classes with one label. It always trains: without it the class would be unknown.
    is_repeated
        Whether some labels are hidden more than once, because a class has fewer than folds.
    """

    hidden: tuple[np.ndarray, ...]
    single: np.ndarray
    is_repeated: bool = False

    def __len__(self) -> int:
        return len(self.hidden)

    @property
    def nodes(self) -> np.ndarray:
        """Every node that is hidden at least once, sorted."""
        return np.unique(np.concatenate(self.hidden))


def stratified_folds(classes: np.ndarray, n_folds: int, seed: int) -> Folds:
    """Deal the labelled nodes into folds, each class evenly.

    A class with at least ``n_folds`` labels is dealt by scikit-learn's ``StratifiedKFold``. A
    class with fewer (two or more) has one label hidden in every fold, each of them in turn:
    leave-some-out, repeated. Beyond five there are no more folds than labels in the largest class:
    from there on every fold hides one label of each class, and more would only repeat fits. To
    hide one label alone would tell a fit its class, as that one would be rarer than the others.

    Parameters
    ----------
    classes
        Class number of every node, -1 where it has no label or must not be hidden.
    n_folds
        Number of folds that are asked for, 2 or more.
    seed
        Of the deal.

    Examples
    --------
    >>> folds = stratified_folds(np.array([0, 0, 0, 1, 1, 1, 2, -1]), 3, seed=0)
    >>> folds.nodes.tolist(), folds.single.tolist(), [len(nodes) for nodes in folds.hidden]
    ([0, 1, 2, 3, 4, 5], [2], [2, 2, 2])
    """
    check_integer("folds", n_folds, low=2)
    numbers, counts = np.unique(classes[classes >= 0], return_counts=True)
    if not (counts >= 2).any():
        raise InputError(
            f"too few labels to tell: {len(numbers)}. Folds must hide labels of classes that have "
            f"another one, got one label in each of {len(numbers)} classes. Label more rows, two "
            "of a class at least."
        )
    rng = np.random.default_rng(seed)
    n_folds = min(n_folds, most_folds(classes))
    common, rare = numbers[counts >= n_folds], numbers[(counts >= 2) & (counts < n_folds)]
    parts = [[np.empty(0, np.int64)] for _ in range(n_folds)]
    if common.size:
        nodes = np.flatnonzero(np.isin(classes, common))
        dealer = StratifiedKFold(n_folds, shuffle=True, random_state=int(rng.integers(2**31)))
        for part, (_, places) in zip(parts, dealer.split(nodes, classes[nodes])):
            part.append(nodes[places])
    for number in rare:
        turn = rng.permutation(np.flatnonzero(classes == number))
        for fold, part in enumerate(parts):
            part.append(turn[[fold % len(turn)]])
    hidden = tuple(np.sort(np.concatenate(part)) for part in parts)
    return Folds(hidden, numbers[counts == 1], bool(rare.size))


def most_folds(classes: np.ndarray) -> int:
    """Return how many folds tell something of these labels: more would only repeat fits.

    Examples
    --------
    >>> most_folds(np.array([0] * 7 + [1, -1])), most_folds(np.array([0, 0, 1]))
    (7, 5)
    """
    return max(_REPEATED, int(np.bincount(classes[classes >= 0], minlength=1).max()))


def one_group(classes: np.ndarray, share: float, seed: int) -> Folds:
    """Hide one share of the labels of every class that has two or more, at least one of each.

    Examples
    --------
    >>> len(one_group(np.array([0] * 6 + [1] * 3), 1 / 3, seed=0).hidden[0])
    3
    """
    n_folds = max(2, round(1 / share))
    folds = stratified_folds(classes, n_folds, seed)
    return Folds(folds.hidden[:1], folds.single)
