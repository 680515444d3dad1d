"""Splits into training, validation and test nodes, determined by data set, name and seed."""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glnn._utils import check_choice, check_indices, check_integer, check_number, did_you_mean
from glnn.data.files import atomic_write, quote, read_text
from glnn.data.node_data import SPLIT_KEYS, NodeData, freeze_array
from glnn.exceptions import DataFormatError, InputError

# Counts per class


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


def draw_by_class(labels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw ``counts[c]`` random nodes of each class c; return them sorted."""
    drawn = [
        rng.choice(np.flatnonzero(labels == c), size=int(count), replace=False)
        for c, count in enumerate(counts)
    ]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *drawn]))


# Splits

N_VAL, N_TEST = 500, 1000
# Number of training and test nodes in the paper
PAPER_COUNTS = {"terroristsrel": (160, 150), "terrorattack": (120, 200)}


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint training, validation and test nodes.

    Parameters
    ----------
    train, val, test
        Node numbers; they are sorted.
    name, seed
        How the split was made; see :func:`make_split`.
    dataset
        Name of the data set.

    Examples
    --------
    >>> split = Split(np.array([2, 0]), np.array([1]), np.array([3]), name="mine", seed=7)
    >>> Split.from_json(split.to_json()) == split
    True
    """

    train: np.ndarray
    val: np.ndarray
    test: np.ndarray
    name: str
    seed: int = 0
    dataset: str = ""

    def __post_init__(self) -> None:
        for key in SPLIT_KEYS:
            nodes = np.sort(check_indices(key, getattr(self, key), 2**62))
            object.__setattr__(self, key, freeze_array(nodes))
        nodes = np.concatenate([self.train, self.val, self.test])
        if np.unique(nodes).size != nodes.size:
            raise InputError("a split must be disjoint, got nodes in more than one of its parts.")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def as_dict(self) -> dict[str, np.ndarray]:
        """Return the three parts by name, as in ``NodeData.splits``."""
        return {key: getattr(self, key) for key in SPLIT_KEYS}

    def to_json(self) -> str:
        """Return the split as JSON text."""
        parts = {key: nodes.tolist() for key, nodes in self.as_dict().items()}
        fields = {"dataset": self.dataset, "name": self.name, "seed": self.seed, **parts}
        return json.dumps({"format": "glnn split", "version": 1, **fields})

    @classmethod
    def from_json(cls, text: str) -> "Split":
        """Parse and check the JSON text of a split."""
        try:
            fields = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DataFormatError(f"a split must be JSON text, got: {error}.") from error
        if not isinstance(fields, dict) or fields.get("format") != "glnn split":
            raise DataFormatError("a split must be a JSON object with the format 'glnn split'.")
        if fields.get("version") != 1:
            raise DataFormatError(
                f"a split must be of version 1, got {quote(fields.get('version'))}."
            )
        return cls(
            **{key: _parse_nodes(key, fields.get(key)) for key in SPLIT_KEYS},
            name=_read_field(fields, "name", str),
            seed=_read_field(fields, "seed", int),
            dataset=_read_field(fields, "dataset", str),
        )

    def save(self, path: str | Path) -> None:
        """Write the split to a JSON file, atomically."""
        with atomic_write(Path(path)) as file:
            file.write(self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "Split":
        """Read a split from a file of :meth:`save`."""
        return cls.from_json(read_text(Path(path)))


def _parse_nodes(key: str, values: Any) -> np.ndarray:
    fits = isinstance(values, list) and all(type(v) is int and 0 <= v < 2**62 for v in values)
    if not fits:
        raise DataFormatError(f"{key!r} of a split must be a list of node numbers.")
    return np.array(values, dtype=np.int64)


def _read_field(fields: Mapping[str, Any], key: str, kind: type) -> Any:
    if type(fields.get(key)) is not kind:
        raise DataFormatError(f"{key!r} of a split must be {kind.__name__}.")
    return fields[key]


def make_split(data: NodeData, name: str, seed: int = 0, **options: Any) -> Split:
    """Return a split of the labelled nodes; the same arguments always give the same one.

    Parameters
    ----------
    data
        The record. Nodes without a label are never in a split.
    name
        - ``"public"``: the published split.
        - ``"per_class"``: ``n_per_class`` (20) training nodes of each class.
        - ``"rate"``: a share ``rate`` (0.05) of the labelled nodes for training, in proportion
          to the classes (``balance="stratified"``) or equally many of each (``"balanced"``).
        - ``"count"``: ``n_labels`` (50) training nodes, with the same ``balance``; all other
          labelled nodes are test nodes.
        - ``"paper"``: the split of the paper. The public one for Cora and Citeseer; 160 training
          and 150 test nodes for TerroristsRel, 120 and 200 for Terror Attack, both stratified;
          for Pubmed see ``pubmed_star`` of ``glnn_lab``.
    seed
        Seed of the random draw.
    **options
        The options named above, and ``n_val`` and ``n_test``. These are 500 and 1000 by default,
        or fewer if too few nodes are left; ``n_val`` is 0 by default for ``"count"`` and
        ``"paper"``.

    Returns
    -------
    Split
        Its parts are sorted and disjoint.
    """
    maker, known = _MAKERS[check_choice("split", name, _MAKERS)]
    for option in options:
        if option not in known:
            raise InputError(
                f"the split {name!r} must get options it has ({', '.join(known) or 'none'}), "
                f"got {option!r}.{did_you_mean(option, known)}"
            )
    check_integer("seed", seed, low=0)
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    parts = maker(data, rng, **options)
    return Split(**parts, name=name, seed=int(seed), dataset=data.name)


def _split_public(data: NodeData, rng: np.random.Generator) -> dict[str, np.ndarray]:
    if not {"train", "test"}.issubset(data.splits):
        raise InputError(
            f"{quote(data.name)} must have a published split for this, got none. "
            "Use the split 'per_class' or 'rate'."
        )
    none = np.empty(0, dtype=np.int64)
    return {key: data.splits.get(key, none) for key in SPLIT_KEYS}


def _split_per_class(
    data: NodeData,
    rng: np.random.Generator,
    n_per_class: Any = 20,
    **rest_sizes: Any,
) -> dict[str, np.ndarray]:
    count = check_integer("n_per_class", n_per_class, low=1)
    sizes = class_sizes(data)
    small = [c for c in range(data.n_classes) if 0 < sizes[c] < count]
    if small:
        raise InputError(
            f"n_per_class must be at most the size of every class, got {count} for class "
            f"{quote(data.class_names[small[0]])} with {sizes[small[0]]} labelled nodes. "
            "Use fewer, or the split 'rate'."
        )
    train = draw_by_class(data.labels, np.where(sizes > 0, count, 0), rng)
    return {"train": train, **_draw_rest(data, train, rng, **rest_sizes)}


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
    return {"train": train, **_draw_rest(data, train, rng, **rest_sizes)}


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
        return _split_public(data, rng)
    if data.name not in PAPER_COUNTS:
        advice = "Call pubmed_star(data, seed) of glnn_lab first." if data.name == "pubmed" else ""
        raise InputError(
            "the split 'paper' is defined for cora, citeseer, pubmed_star, "
            f"{', '.join(PAPER_COUNTS)}; got {quote(data.name)}. {advice}".rstrip()
        )
    n_train, n_test = PAPER_COUNTS[data.name]
    train = draw_by_class(data.labels, allocate_stratified(class_sizes(data), n_train), rng)
    rest = np.where(np.isin(np.arange(data.n_nodes), train), -1, data.labels)
    test_counts = allocate_stratified(_count_labels(rest, data.n_classes), n_test)
    test = draw_by_class(rest, test_counts, rng)
    others = np.setdiff1d(data.labelled, np.concatenate([train, test]))
    wanted = check_integer("n_val", n_val, low=0, high=others.size)
    return {"train": train, "val": rng.permutation(others)[:wanted], "test": test}


def _draw_rest(
    data: NodeData,
    train: np.ndarray,
    rng: np.random.Generator,
    n_val: Any = None,
    n_test: Any = None,
) -> dict[str, np.ndarray]:
    """Draw validation and test nodes from the labelled nodes outside ``train``."""
    rest = rng.permutation(np.setdiff1d(data.labelled, train))
    val_size, test_size = _resolve_rest_sizes(rest.size, n_val, n_test)
    return {"val": rest[:val_size], "test": rest[val_size : val_size + test_size]}


def _resolve_rest_sizes(n_rest: int, n_val: Any, n_test: Any) -> tuple[int, int]:
    """Return the sizes; ``None`` becomes 500 or 1000, or a share (1:2) of too few nodes."""
    asked_val = 0 if n_val is None else check_integer("n_val", n_val, low=0)
    asked_test = 0 if n_test is None else check_integer("n_test", n_test, low=0)
    if asked_val + asked_test > n_rest:
        raise InputError(
            f"n_val + n_test must be at most the {n_rest} labelled nodes that do not train, got "
            f"{asked_val} + {asked_test}."
        )
    free = n_rest - asked_val - asked_test
    if n_val is None and n_test is None:
        val = min(N_VAL, free // 3)
        return val, min(N_TEST, free - val)
    if n_val is None:
        return min(N_VAL, free), asked_test
    return asked_val, min(N_TEST, free) if n_test is None else asked_test


def class_sizes(data: NodeData) -> np.ndarray:
    """Return the number of labelled nodes of each class."""
    return _count_labels(data.labels, data.n_classes)


def _count_labels(labels: np.ndarray, n_classes: int) -> np.ndarray:
    return np.bincount(labels[labels >= 0], minlength=n_classes)


_ALLOCATE = {"stratified": allocate_stratified, "balanced": allocate_balanced}
_Maker = Callable[..., dict[str, np.ndarray]]
_MAKERS: dict[str, tuple[_Maker, tuple[str, ...]]] = {
    "public": (_split_public, ()),
    "per_class": (_split_per_class, ("n_per_class", "n_val", "n_test")),
    "rate": (_split_by_rate, ("rate", "balance", "n_val", "n_test")),
    "count": (_split_by_count, ("n_labels", "balance", "n_val")),
    "paper": (_split_as_paper, ("n_val",)),
}
