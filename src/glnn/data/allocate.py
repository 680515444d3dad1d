"""How many nodes of each class to draw, and drawing them."""

import numpy as np

from glnn.exceptions import InputError


def stratified_counts(sizes: np.ndarray, total: int) -> np.ndarray:
    """Return counts in proportion to the class sizes that sum to ``total``.

    Every class with a member gets at least one where ``total`` allows; a class with two or more
    keeps one back where the others can give; the rest goes by largest remainder.

    Examples
    --------
    >>> stratified_counts(np.array([98, 1, 1]), 10).tolist()
    [8, 1, 1]
    """
    return _fill(sizes, total, sizes / max(int(sizes.sum()), 1) * total)


def balanced_counts(sizes: np.ndarray, total: int) -> np.ndarray:
    """Return counts as equal as the class sizes allow, which sum to ``total``.

    Examples
    --------
    >>> balanced_counts(np.array([98, 3, 50]), 30).tolist()
    [14, 2, 14]
    """
    low, high = 0.0, float(sizes.max(initial=0))
    caps = _caps(sizes, total)
    for _ in range(64):  # the level at which equal counts, cut at the caps, sum to the total
        level = (low + high) / 2
        low, high = (level, high) if np.minimum(caps, level).sum() < total else (low, level)
    return _fill(sizes, total, np.minimum(caps, high))


def _caps(sizes: np.ndarray, total: int) -> np.ndarray:
    """At most all but one of each class, unless that is too little for the total."""
    keep_one = np.where(sizes > 1, sizes - 1, sizes)
    return keep_one if keep_one.sum() >= total else sizes


def _fill(sizes: np.ndarray, total: int, ideal: np.ndarray) -> np.ndarray:
    """Round ideal counts to whole ones that sum to the total, one a class at least."""
    if total > sizes.sum():
        raise InputError(
            f"a split must draw at most the {int(sizes.sum())} labelled nodes, got {total}."
        )
    caps = _caps(sizes, total)
    counts: np.ndarray = np.minimum(np.floor(ideal + 1e-9).astype(np.int64), caps)
    if total >= (sizes > 0).sum():
        counts = np.maximum(counts, np.minimum(1, sizes))
    while counts.sum() != total:
        missing = ideal - counts
        if counts.sum() < total:
            counts[np.argmax(np.where(counts < caps, missing, -np.inf))] += 1
        else:
            counts[np.argmin(np.where(counts > 1, missing, np.inf))] -= 1
    return counts


def draw_by_class(labels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return, sorted, ``counts[c]`` random nodes of each class c."""
    drawn = [
        rng.choice(np.flatnonzero(labels == c), size=int(count), replace=False)
        for c, count in enumerate(counts)
    ]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *drawn]))
