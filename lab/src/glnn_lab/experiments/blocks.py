"""A block of a target: methods on data sets, perhaps along an axis, and what is hoped for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from glnn_lab.experiments.cells import FIRST_SEED, Cell, Scalar
from glnn_lab.experiments.datasets import standard_split
from glnn_lab.experiments.methods import METHODS

VIEWS = ("methods", "axis", "graphs")


@dataclass(frozen=True)
class Axis:
    """What changes along a block: a split option ``rate``, the ``share``, or a setting."""

    key: str
    label: str
    values: tuple[float | int, ...]


@dataclass(frozen=True)
class Goal:
    """What one number of the default, or of another method, is held against.

    Parameters
    ----------
    setting, dataset, at
        Words for its row; its place: the data set and the value on the axis.
    published
        Sources with their numbers in percent, from other people's programs.
    goal
        What must be reached; without it every published number must be exceeded.
    above
        Methods of the same block whose mean must be exceeded.
    margins
        Points by which the mean of a method of the same block must be exceeded at least; with
        negative ones it may be missed by as much.
    method
        Whose number it is.
    """

    setting: str
    dataset: str
    at: float | int | None = None
    published: tuple[tuple[str, float], ...] = ()
    goal: float | None = None
    above: tuple[str, ...] = ()
    margins: Mapping[str, float] = field(default_factory=dict)
    method: str = "glnn"


@dataclass(frozen=True)
class Entry:
    """One number of a table: its method, data set, value on the axis, and the runs behind it."""

    method: str
    dataset: str
    value: float | int | None
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Block:
    """A part of a target: methods on data sets, perhaps along an axis.

    Parameters
    ----------
    name, title, note, short
        Name of its files, and words for people; ``short`` names it in a row of a wider table.
    methods, datasets
        What runs; ``is_open`` lets the caller name further methods.
    view
        ``methods``: a table of methods by data sets; ``axis``: methods along the axis, a curve
        each; ``graphs``: pictures of learned graphs.
    is_ablation
        Whether its methods are the default with one part taken away.
    paper
        Label of the paper's table or figure, for its numbers.
    seeds
        Runs of each number at most, where the target's are too many.
    axis, perturbation, split, split_options, settings, probe
        Of the cells; without a split each data set has its own.
    dataset_options
        Further split options of single data sets.
    goals
        What the numbers of the default are held against.
    adjust
        What is different for some methods on some data sets: ``methods``, ``datasets``, ``why``,
        and any of ``settings``, ``probe``, ``seeds``.
    skip
        Cells that are not run: ``methods``, ``datasets``, ``why``.
    """

    name: str
    title: str
    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    note: str = ""
    short: str = ""
    is_open: bool = False
    view: str = "methods"
    is_ablation: bool = False
    paper: str = ""
    seeds: int | None = None
    axis: Axis | None = None
    perturbation: str = "none"
    split: str | None = None
    split_options: Mapping[str, Scalar] = field(default_factory=dict)
    dataset_options: Mapping[str, Mapping[str, Scalar]] = field(default_factory=dict)
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    probe: str = "accuracy"
    goals: tuple[Goal, ...] = ()
    adjust: tuple[Mapping[str, Any], ...] = ()
    skip: tuple[Mapping[str, Any], ...] = ()

    def entries(self, n_seeds: int, datasets: Sequence[str], methods: Sequence[str]) -> list[Entry]:
        """Return the numbers of this block for chosen data sets and methods.

        ``n_seeds`` runs of each, or fewer where the block or one of its rules says so.
        """
        values: Sequence[float | int | None] = (None,) if self.axis is None else self.axis.values
        return [
            Entry(m, d, v, tuple(self._cell(m, d, v, seed) for seed in self._seeds(m, d, n_seeds)))
            for d in datasets
            for m in methods
            if self.reason_to_skip(m, d) is None
            for v in values
        ]

    def reason_to_skip(self, method: str, dataset: str) -> str | None:
        """Return why a method is not run on a data set, or ``None`` if it is."""
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
            elif self.axis.key == "rate":
                options["rate"] = value
            else:
                settings[self.axis.key] = value
        method, damage = METHODS[method].on_graph(self.perturbation)
        return Cell(method, dataset, seed, split, options, damage, share, settings, probe)


def _rules(
    rules: Sequence[Mapping[str, Any]], method: str, dataset: str
) -> list[Mapping[str, Any]]:
    return [r for r in rules if method in r["methods"] and dataset in r["datasets"]]
