"""The tables and figures by name, read from TOML files into blocks of cells."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any

from glnn._utils import check_choice, check_integer, did_you_mean
from glnn.exceptions import InputError
from glnn_lab.experiments.blocks import VIEWS, Axis, Block, Entry, Goal
from glnn_lab.experiments.cells import Cell
from glnn_lab.experiments.datasets import NAMES
from glnn_lab.experiments.methods import GROUPS, METHODS

ALL = "all"
PAPER_TARGETS = ("table1", "table2", "robustness", "adjacency")


@dataclass(frozen=True)
class Target:
    """A table or figure: its title, text, blocks and number of seeds."""

    name: str
    title: str
    about: str
    blocks: tuple[Block, ...]
    seeds: int = 10

    def choose(
        self,
        n_seeds: int | None = None,
        datasets: Sequence[str] | None = None,
        methods: Sequence[str] | None = None,
    ) -> list[tuple[Block, list[Entry]]]:
        """Return each block with its entries for the given data sets and methods.

        ``n_seeds`` defaults to the target's; a block may limit it. A data set that the target does
        not have is added to every block, a method to every open block. ``glnn`` stands for the
        presets default, paper and literal, ``glnn-default`` for the first alone, ``all`` for all
        methods of a block.
        """
        count = check_integer("--seeds", self.seeds if n_seeds is None else n_seeds, low=1)
        for name in datasets or ():
            check_choice("--datasets", name, NAMES)
        for name in methods or ():
            check_choice("--methods", name, dict.fromkeys([ALL, *GROUPS, *METHODS]))
        chosen = [
            (b, b.entries(count, self._datasets(b, datasets), _methods(b, methods)))
            for b in self.blocks
        ]
        chosen = [(block, entries) for block, entries in chosen if entries]
        if not chosen:
            has = sorted({m for b in self.blocks for m in b.methods})
            raise InputError(
                f"{self.name} must get methods and data sets it has, got none of them. Its "
                f"methods are {', '.join(has)}."
            )
        return chosen

    def _datasets(self, block: Block, names: Sequence[str] | None) -> list[str]:
        if names is None:
            return list(block.datasets)
        own = {name for b in self.blocks for name in b.datasets}
        return [n for n in dict.fromkeys(names) if n in block.datasets or n not in own]


def list_cells(chosen: Sequence[tuple[Block, list[Entry]]]) -> list[Cell]:
    """Return the cells of all entries, each once."""
    cells = (cell for _, entries in chosen for entry in entries for cell in entry.cells)
    return list(dict.fromkeys(cells))


def target_names() -> list[str]:
    """Return the names of all targets, those of the paper first."""
    folder = files("glnn_lab.experiments") / "settings"
    found = sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml"))
    return [*PAPER_TARGETS, *(name for name in found if name not in PAPER_TARGETS)]


def get_target(name: str) -> Target:
    """Return a target by name; the error for an unknown name suggests the nearest one.

    Examples
    --------
    >>> get_target("table2").blocks[0].axis.values
    (1.0, 0.1, 0.01, 0.001, 0.0001, 0.0)
    """
    check_choice("target", name, [*target_names(), ALL])
    source = files("glnn_lab.experiments") / "settings" / f"{name}.toml"
    return parse_target(name, source.read_text(encoding="utf-8"))


def parse_target(name: str, text: str) -> Target:
    """Read a target from TOML; an unknown key is an error."""
    page = tomllib.loads(text)
    blocks = tuple(_block(values) for values in page.pop("block"))
    _refuse_unknown(page, ("title", "about", "seeds"))
    return Target(name, blocks=blocks, **page)


def _block(values: dict[str, Any]) -> Block:
    _refuse_unknown(values, [f.name for f in fields(Block)])
    every = [name for name, method in METHODS.items() if not method.is_variant]
    methods = every if values["methods"] == ALL else values["methods"]
    for method in methods:
        check_choice("methods", method, METHODS)
    for dataset in values["datasets"]:
        check_choice("datasets", dataset, NAMES)
    check_choice("view", values.get("view", "methods"), VIEWS)
    lists: dict[str, Any] = {
        key: tuple(values.pop(key)) for key in ("datasets", "adjust", "skip") if key in values
    }
    axis = values.pop("axis", None)
    if axis is not None:
        axis = Axis(axis["key"], axis["label"], tuple(axis["values"]))
    lists["goals"] = tuple(_goal(goal) for goal in values.pop("goals", ()))
    return Block(**values | lists | {"methods": tuple(methods), "axis": axis})


def _goal(values: dict[str, Any]) -> Goal:
    _refuse_unknown(values, [f.name for f in fields(Goal)])
    numbers = tuple((str(source), float(value)) for source, value in values.get("published", ()))
    above = tuple(check_choice("above", name, METHODS) for name in values.get("above", ()))
    return Goal(**values | {"published": numbers, "above": above})


def _methods(block: Block, names: Sequence[str] | None) -> list[str]:
    if names is None or ALL in names:
        return list(block.methods)
    found: list[str] = []
    for name in names:
        if name in GROUPS:
            found += [m for m in GROUPS[name] if m in block.methods]
        elif name in block.methods or block.is_open:
            found.append(name)
    return list(dict.fromkeys(found))


def _refuse_unknown(values: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in values:
        if key not in known:
            raise InputError(f"{key!r} is not known in a target.{did_you_mean(key, known)}")
