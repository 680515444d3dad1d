"""Splits into training, validation and test nodes, determined by data set, name and seed."""

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from glnn._utils import check_choice, check_integer
from glnn.data.files import one_line, quote, read_text, write_file
from glnn.data.node_data import SPLIT_KEYS, NodeData, check_parts
from glnn.exceptions import DataFormatError, InputError

N_VAL, N_TEST = 500, 1000


@dataclass(frozen=True, eq=False)
class Split:
    """Disjoint training, validation and test nodes."""

    train: np.ndarray  # node numbers; they are sorted
    val: np.ndarray
    test: np.ndarray
    name: str  # how the split was made, as the seed
    seed: int = 0
    dataset: str = ""

    def __post_init__(self) -> None:
        for key, nodes in check_parts(self.as_dict(), 2**62).items():
            object.__setattr__(self, key, nodes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Split) and self.to_json() == other.to_json()

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
            if fields["format"] != "glnn split":
                raise ValueError("another format")
            train, val, test = (np.asarray(fields[key]) for key in SPLIT_KEYS)
            names = str(fields["name"]), int(fields["seed"]), str(fields["dataset"])
            return cls(train, val, test, *names)
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError) as error:
            raise DataFormatError(
                f"a split must be a JSON object of the format 'glnn split', got: {one_line(error)}."
            ) from None

    def save(self, path: str | Path) -> None:
        """Write the split to a JSON file, atomically."""
        write_file(Path(path), self.to_json() + "\n")

    @classmethod
    def load(cls, path: str | Path) -> "Split":
        """Read a split from a file of :meth:`save`."""
        return cls.from_json(read_text(Path(path)))


def make_split(
    data: NodeData,
    name: str,
    seed: int = 0,
    *,
    n_per_class: int = 20,
    n_val: int | None = None,
    n_test: int | None = None,
) -> Split:
    """Return a split of the labelled nodes; the same arguments always give the same one.

    ``"public"`` is the published split. ``"per_class"`` draws ``n_per_class`` training nodes of
    each class at random by the ``seed``, then ``n_val`` and ``n_test`` of the other labelled nodes,
    by default 500 and 1000, or fewer if too few are left.
    """
    check_choice("split", name, ("public", "per_class"))
    check_integer("seed", seed, low=0)
    if name == "public":
        if not {"train", "test"}.issubset(data.splits):
            raise InputError(
                f"{quote(data.name)} must have a published split for this, got none. "
                "Use the split 'per_class'."
            )
        parts = {key: data.splits.get(key, data.labelled[:0]) for key in SPLIT_KEYS}
    else:
        rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
        count = check_integer("n_per_class", n_per_class, low=1)
        sizes = class_sizes(data)
        small = [c for c in range(data.n_classes) if 0 < sizes[c] < count]
        if small:
            raise InputError(
                f"n_per_class must be at most the size of every class, got {count} for class "
                f"{quote(data.class_names[small[0]])} with {sizes[small[0]]} labelled nodes. "
                "Use fewer."
            )
        train = draw_by_class(data.labels, np.where(sizes > 0, count, 0), rng)
        parts = {"train": train, **draw_rest(data, train, rng, n_val, n_test)}
    return Split(**parts, name=name, seed=int(seed), dataset=data.name)


def draw_by_class(labels: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw ``counts[c]`` random nodes of each class c; return them sorted."""
    drawn = [
        rng.choice(np.flatnonzero(labels == c), size=int(count), replace=False)
        for c, count in enumerate(counts)
    ]
    return np.sort(np.concatenate([np.empty(0, dtype=np.int64), *drawn]))


def draw_rest(
    data: NodeData,
    train: np.ndarray,
    rng: np.random.Generator,
    n_val: Any = None,
    n_test: Any = None,
) -> dict[str, np.ndarray]:
    """Draw validation and test nodes from the labelled nodes outside ``train``.

    Sizes of ``None`` become 500 and 1000, or one and two thirds of too few nodes.
    """
    rest = rng.permutation(np.setdiff1d(data.labelled, train))
    val = check_integer("n_val", n_val or 0, low=0)
    test = check_integer("n_test", n_test or 0, low=0)
    free = rest.size - val - test
    if free < 0:
        raise InputError(
            f"n_val + n_test must be at most the {rest.size} labelled nodes that do not train, got "
            f"{val} + {test}."
        )
    if n_val is None:
        val = min(N_VAL, free // 3 if n_test is None else free)
    if n_test is None:
        test = min(N_TEST, rest.size - val)
    return {"val": rest[:val], "test": rest[val : val + test]}


def class_sizes(data: NodeData) -> np.ndarray:
    """Return the number of labelled nodes of each class."""
    return np.bincount(data.labels[data.labelled], minlength=data.n_classes)
