"""A block of a target: methods on data sets, perhaps along an axis, with goals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glnn_lab.experiments.cells import FIRST_SEED, Cell, Scalar
from glnn_lab.experiments.datasets import standard_split
from glnn_lab.experiments.methods import METHODS

VIEWS = ("methods", "axis", "graphs")


@dataclass(frozen=True)
class Axis:
    """The parameter varied in a block: an option of the split, the ``share``, or a setting."""

    key: str
    label: str
    values: tuple[float | int, ...]


@dataclass(frozen=True)
class Goal:
    """What the accuracy of a method on a data set should reach.

    Without ``goal`` every published number must be exceeded. A negative margin allows the accuracy
    to be lower by as much.
    """

    setting: str  # title of the row
    dataset: str
    at: float | int | None = None  # value on the axis
    published: tuple[tuple[str, float], ...] = ()  # sources and their accuracies in percent
    goal: float | None = None  # accuracy to reach, in percent
    above: tuple[str, ...] = ()  # methods of the block whose mean must be exceeded
    margins: Mapping[str, float] = field(default_factory=dict)  # points to lead each method by
    method: str = "glnn"


@dataclass(frozen=True)
class Entry:
    """One number of a table: method, data set, value on the axis, and its runs."""

    method: str
    dataset: str
    value: float | int | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Block:
    """A part of a target: methods on data sets, perhaps along an axis.

    ``view`` is ``methods`` (a table of methods by data sets), ``axis`` (a curve per method) or
    ``graphs`` (pictures of learned graphs). A rule of ``adjust`` or ``skip`` names ``methods``,
    ``datasets`` and a reason ``why``; a rule of ``adjust`` also has any of ``settings``, ``probe``
    and ``seeds``.
    """

    name: str  # of its files
    title: str
    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    note: str = ""
    short: str = ""  # name in a row of a wider table
    is_open: bool = False  # whether the caller may name further methods
    view: str = "methods"
    is_ablation: bool = False  # whether its methods are the default without one part
    paper: str = ""  # label of the paper's table or figure
    seeds: int | None = None  # at most this many runs per number
    axis: Axis | None = None
    perturbation: str = "none"
    split: str | None = None  # None: the standard split of each data set
    split_options: Mapping[str, Scalar] = field(default_factory=dict)
    dataset_options: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    probe: str = "accuracy"
    goals: tuple[Goal, ...] = ()
    adjust: tuple[Mapping[str, Any], ...] = ()
    skip: tuple[Mapping[str, Any], ...] = ()

    def entries(self, n_seeds: int, datasets: Sequence[str], methods: Sequence[str]) -> list[Entry]:
        """Return the entries of this block for some data sets and methods.

        Each has ``n_seeds`` runs, or fewer if the block or one of its rules limits them.
        """
        values: Sequence[float | int | None] = (None,) if self.axis is None else self.axis.values
        return [
            Entry(m, d, v, tuple(self._cell(m, d, v, seed) for seed in self._seeds(m, d, n_seeds)))
            for d in datasets
            for m in methods
            if self.skip_reason(m, d) is None
            for v in values
        ]

    def skip_reason(self, method: str, dataset: str) -> str | None:
        """Return why a method is not run on a data set; ``None`` if it is run."""
        for rule in _rules(self.skip, method, dataset):
            return str(rule["why"])
        return None

    def _seeds(self, method: str, dataset: str, n_seeds: int) -> range:
        rules = _rules(self.adjust, method, dataset)
        limits = [self.seeds, *(rule.get("seeds") for rule in rules)]
        n_runs = min([n_seeds, *(limit for limit in limits if limit is not None)])
        return range(FIRST_SEED, FIRST_SEED + n_runs)

    def _cell(self, method: str, dataset: str, value: float | int | None, seed: int) -> Cell:
        split, options = standard_split(dataset)
        if self.split is not None:
            split, options = self.split, self.split_options
        options = {**options, **self.dataset_options.get(dataset, {})}
        settings, share, probe = dict(self.settings), 0.0, self.probe
        for rule in _rules(self.adjust, method, dataset):
            settings |= rule.get("settings", {})
            probe = rule.get("probe", probe)
        if self.axis is not None and value is not None:
            if self.axis.key == "share":
                share = float(value)
            elif self.axis.key in ("rate", "n_per_class"):
                options[self.axis.key] = value
            else:
                settings[self.axis.key] = value
        method, damage = METHODS[method].on_graph(self.perturbation)
        return Cell(method, dataset, seed, split, options, damage, share, settings, probe)


def _rules(
    rules: Sequence[Mapping[str, Any]], method: str, dataset: str
) -> list[Mapping[str, Any]]:
    return [r for r in rules if method in r["methods"] and dataset in r["datasets"]]
