"""Splits of the experiments: those of the library, by share or number of labels, the paper's."""

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from glnn._utils import check_choice, check_integer, check_number, did_you_mean
from glnn.data import NodeData, Split
from glnn.data import make_split as make_library_split
from glnn.data.files import quote
from glnn.data.splits import class_sizes, draw_by_class, draw_rest
from glnn.exceptions import InputError

# Number of training and test nodes in the paper
PAPER_COUNTS = {"terroristsrel": (160, 150), "terrorattack": (120, 200)}


def make_split(data: NodeData, name: str, seed: int = 0, **options: Any) -> Split:
    """Return a split of the labelled nodes; the same arguments always give the same one.

    ``name`` is one of the following. Validation and test nodes are drawn as by
    :func:`glnn.data.make_split` where nothing else is said.

    - ``"public"``, ``"per_class"``: see :func:`glnn.data.make_split`.
    - ``"rate"``: a share ``rate`` (0.05) of the labelled nodes for training, in proportion to the
      classes (``balance="stratified"``) or equally many of each (``"balanced"``).
    - ``"count"``: ``n_labels`` (50) training nodes, with the same ``balance``; ``n_val`` (0)
      validation nodes; all other labelled nodes are test nodes.
    - ``"paper"``: the split of the paper, with ``n_val`` (0) validation nodes for the terror sets.
    - ``"unwatched"``: the public split without its validation nodes.
    """
    if name not in _MAKERS:
        check_choice("split", name, ("public", "per_class", *_MAKERS))
        return make_library_split(data, name, seed, **options)
    maker, known = _MAKERS[name]
    for option in options:
        if option not in known:
            raise InputError(
                f"the split {name!r} must get options it has ({', '.join(known)}), "
                f"got {option!r}.{did_you_mean(option, known)}"
            )
    check_integer("seed", seed, low=0)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return Split(**maker(data, rng, **options), name=name, seed=int(seed), dataset=data.name)


def allocate_stratified(sizes: np.ndarray, total: int) -> np.ndarray:
    """Return counts that sum to ``total``, in proportion to the class sizes.

    If ``total`` allows, every class with members gets at least one, and a class with two or more
    keeps one back. The rest is distributed by largest remainder.

    Examples
    --------
    >>> allocate_stratified(np.array([98, 1, 1]), 10).tolist()
    [8, 1, 1]
    """
    return _round_counts(sizes, total, sizes / max(int(sizes.sum()), 1) * total)


def allocate_balanced(sizes: np.ndarray, total: int) -> np.ndarray:
    """Return counts that sum to ``total``, as equal as the class sizes allow.

    Examples
    --------
    >>> allocate_balanced(np.array([98, 3, 50]), 30).tolist()
    [14, 2, 14]
    """
    low, high = 0.0, float(sizes.max(initial=0))
    caps = _max_counts(sizes, total)
    for _ in range(64):  # the level at which equal counts, cut at the caps, sum to the total
        level = (low + high) / 2
        low, high = (level, high) if np.minimum(caps, level).sum() < total else (low, level)
    return _round_counts(sizes, total, np.minimum(caps, high))


def _max_counts(sizes: np.ndarray, total: int) -> np.ndarray:
    """Return the limit of each class: all but one, or all if that is too little for the total."""
    keep_one = np.where(sizes > 1, sizes - 1, sizes)
    return keep_one if keep_one.sum() >= total else sizes


def _round_counts(sizes: np.ndarray, total: int, ideal: np.ndarray) -> np.ndarray:
    """Round ideal counts to integers that sum to the total, at least one a class if possible."""
    if total > sizes.sum():
        raise InputError(
            f"a split must draw at most the {int(sizes.sum())} labelled nodes, got {total}."
        )
    caps = _max_counts(sizes, total)
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


def _split_by_rate(
    data: NodeData,
    rng: np.random.Generator,
    rate: Any = 0.05,
    balance: Any = "stratified",
    **rest_sizes: Any,
) -> dict[str, np.ndarray]:
    share = check_number("rate", rate, low=0, high=1, open_low=True)
    check_choice("balance", balance, tuple(_ALLOCATE))
    sizes = class_sizes(data)
    total = max(round(share * int(sizes.sum())), int((sizes > 0).sum()))
    train = draw_by_class(data.labels, _ALLOCATE[balance](sizes, total), rng)
    return {"train": train, **draw_rest(data, train, rng, **rest_sizes)}


def _split_by_count(
    data: NodeData,
    rng: np.random.Generator,
    n_labels: Any = 50,
    balance: Any = "stratified",
    n_val: Any = 0,
) -> dict[str, np.ndarray]:
    check_choice("balance", balance, tuple(_ALLOCATE))
    sizes = class_sizes(data)
    n_present = int((sizes > 0).sum())
    total = check_integer("n_labels", n_labels, low=n_present, high=int(sizes.sum()))
    train = draw_by_class(data.labels, _ALLOCATE[balance](sizes, total), rng)
    others = np.setdiff1d(data.labelled, train)
    wanted = check_integer("n_val", n_val, low=0, high=others.size)
    val = rng.permutation(others)[:wanted]
    return {"train": train, "val": val, "test": np.setdiff1d(others, val)}


def _split_as_paper(
    data: NodeData, rng: np.random.Generator, n_val: Any = 0
) -> dict[str, np.ndarray]:
    if data.name in ("cora", "citeseer", "pubmed_star"):
        return make_library_split(data, "public").as_dict()
    if data.name not in PAPER_COUNTS:
        advice = "Call pubmed_star(data, seed) of glnn_lab first." if data.name == "pubmed" else ""
        raise InputError(
            "the split 'paper' is defined for cora, citeseer, pubmed_star, "
            f"{', '.join(PAPER_COUNTS)}; got {quote(data.name)}. {advice}".rstrip()
        )
    n_train, n_test = PAPER_COUNTS[data.name]
    train = draw_by_class(data.labels, allocate_stratified(class_sizes(data), n_train), rng)
    rest = np.where(np.isin(np.arange(data.n_nodes), train), -1, data.labels)
    test_counts = allocate_stratified(
        np.bincount(rest[rest >= 0], minlength=data.n_classes), n_test
    )
    test = draw_by_class(rest, test_counts, rng)
    others = np.setdiff1d(data.labelled, np.concatenate([train, test]))
    wanted = check_integer("n_val", n_val, low=0, high=others.size)
    return {"train": train, "val": rng.permutation(others)[:wanted], "test": test}


def _split_unwatched(data: NodeData, rng: np.random.Generator) -> dict[str, np.ndarray]:
    public = make_library_split(data, "public")
    return {"train": public.train, "val": public.val[:0], "test": public.test}


_ALLOCATE = {"stratified": allocate_stratified, "balanced": allocate_balanced}
_MAKERS: dict[str, tuple[Callable[..., dict[str, np.ndarray]], tuple[str, ...]]] = {
    "rate": (_split_by_rate, ("rate", "balance", "n_val", "n_test")),
    "count": (_split_by_count, ("n_labels", "balance", "n_val")),
    "paper": (_split_as_paper, ("n_val",)),
    "unwatched": (_split_unwatched, ()),
}
