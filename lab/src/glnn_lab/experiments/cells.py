"""A cell: one run of one method on one split of one data set, with a stable id."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from glnn._utils import check_choice, check_integer, check_number
from glnn.exceptions import InputError

Scalar = str | int | float | bool | None
PERTURBATIONS = ("none", "delete", "add", "rewire", "poison", "no-graph")
PROBES = ("accuracy", "adjacency")

FIRST_SEED = 300  # reported numbers use the seeds from here on; smaller ones are for tuning


@dataclass(frozen=True, eq=False)
class Cell:
    """Everything a run depends on, so that it can be repeated from its record.

    The seed determines the split (unless it is a published one), the perturbation and the initial
    parameters.

    Examples
    --------
    >>> cell = Cell("gcn", "cora", 0, "public", perturbation="delete", share=0)
    >>> cell.perturbation, cell == Cell("gcn", "cora", 0, "public")
    ('none', True)
    """

    method: str  # a name of METHODS
    dataset: str  # a name of NAMES
    seed: int
    split: str  # as in glnn_lab.experiments.splits.make_split
    split_options: Mapping[str, Any] = field(default_factory=dict)
    perturbation: str = "none"  # change of the given graph, one of PERTURBATIONS
    share: float | int = 0.0  # of the edges that are changed
    settings: Mapping[str, Any] = field(default_factory=dict)  # changes of the method's settings
    probe: str = "accuracy"  # what is recorded, one of PROBES

    def __post_init__(self) -> None:
        check_integer("seed", self.seed, low=0)
        kind = check_choice("perturbation", self.perturbation, PERTURBATIONS)
        share = check_number("share", self.share, low=0)
        if kind != "no-graph" and (kind == "none" or share == 0):
            kind, share = "none", 0.0  # one id for the unchanged graph
        check_choice("probe", self.probe, PROBES)
        checked: dict[str, Any] = {
            "perturbation": kind,
            "share": 0.0 if kind == "no-graph" else share,
        }
        for name in ("split_options", "settings"):
            checked[name] = MappingProxyType(_scalars(name, getattr(self, name)))
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def id(self) -> str:
        """A hash of everything the run depends on."""
        text = json.dumps(self.to_dict(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cell) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {k: dict(v) if isinstance(v, Mapping) else v for k, v in values.items()}

    def __reduce__(self) -> Any:
        return Cell.from_dict, (self.to_dict(),)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Cell":
        """Return the cell of a record; other keys of the record are ignored.

        Examples
        --------
        >>> cell = Cell("glnn", "cora", 3, "rate", {"rate": 0.01})
        >>> Cell.from_dict(cell.to_dict() | {"accuracy": 0.5}) == cell
        True
        """
        known = [f.name for f in fields(cls)]
        missing = [k for k in ("method", "dataset", "seed", "split") if k not in values]
        if missing:
            raise InputError(f"the record of a cell must have {', '.join(missing)}.")
        return cls(**{k: values[k] for k in known if k in values})


def _scalars(name: str, values: Mapping[str, Any]) -> dict[str, Scalar]:
    for key, value in values.items():
        if not (value is None or isinstance(value, str | int | float)):
            raise InputError(
                f"{name} of a cell must hold plain values, got {type(value).__name__} for {key!r}."
            )
    return {key: values[key] for key in sorted(values)}
