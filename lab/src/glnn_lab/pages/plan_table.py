"""What a run would do, in a table: cells by method and data set, and the time they may take."""

from collections.abc import Sequence
from pathlib import Path

from glnn_lab.experiments.datasets import title_of
from glnn_lab.experiments.plan import Plan, make_plan
from glnn_lab.experiments.store import ResultStore
from glnn_lab.experiments.targets import Target, cells_of
from glnn_lab.pages.paper_tables import NOTHING, PlainTable
from glnn_lab.pages.reproduction import Wanted


def plan_of(targets: Sequence[Target], wanted: Wanted, folder: Path) -> Plan:
    """Plan the cells of some targets, each once, by what the folder has of earlier runs."""
    cells = [cell for target in targets for cell in cells_of(wanted.chosen(target))]
    return make_plan(cells, ResultStore(folder).read().values())


def plan_table(plan: Plan) -> PlainTable:
    """Tabulate the number of cells; of methods with known times, all their seconds too."""
    rows = []
    for method in plan.methods:
        counts = [plan.n_cells.get((method, d), 0) for d in plan.datasets]
        known = sum(plan.seconds.get((method, d), 0.0) for d in plan.datasets)
        numbers = [str(n) if n else NOTHING for n in counts]
        rows.append([method, *numbers, str(sum(counts)), f"{known:,.0f}" if known else NOTHING])
    sums = [sum(plan.n_cells.get((m, d), 0) for m in plan.methods) for d in plan.datasets]
    total = sum(plan.seconds.values())
    rows.append(["all", *map(str, sums), str(sum(sums)), f"{total:,.0f}" if total else NOTHING])
    header = ["method", *(title_of(d) for d in plan.datasets), "cells", "core seconds"]
    return PlainTable("Cells to run, each once", header, rows)


def plan_words(plan: Plan) -> str:
    """Say what is finished and what is expected of the rest."""
    n_cells, n_done = sum(plan.n_cells.values()), sum(plan.n_done.values())
    words = f"{n_done} of {n_cells} cells are finished"
    if plan.n_unknown:
        words += f"; {plan.n_unknown} have no earlier time to go by"
    if plan.seconds_left:
        words += f"; the others need about {plan.seconds_left:,.0f} core seconds"
    return words + "."
