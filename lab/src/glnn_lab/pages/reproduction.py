"""Run targets, and write their records, Markdown pages and figures into one folder."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glnn.data.files import atomic_write
from glnn.exceptions import MissingDependencyError
from glnn_lab.experiments.aggregate import busy_seconds
from glnn_lab.experiments.blocks import Block, Entry
from glnn_lab.experiments.records import BlockResults, ResultStore, join_results
from glnn_lab.experiments.runner import Plan, ProgressCallback, make_plan, run_grid
from glnn_lab.experiments.targets import ALL, Target, get_target, list_cells, target_names
from glnn_lab.pages.goal_tables import ablation_table, goals_table, render_headline
from glnn_lab.pages.paper_figures import block_figure
from glnn_lab.pages.paper_tables import (
    MISSING,
    PlainTable,
    block_notes,
    block_tables,
    markdown_table,
)

HEADLINE = "headline.md"  # the table of the README with its caption
_HEADLINE_TARGET = "accuracy"
_GAP = "In brackets: points above the highest threshold."
_WORTH = "In brackets: 95 % interval of the mean difference on the same seeds, by Student's t."


@dataclass(frozen=True)
class RunRequest:
    """Options of a run; ``None`` means the default of the target."""

    seeds: int | None = None
    datasets: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    jobs: int = 1

    def choose_blocks(self, target: Target) -> list[tuple[Block, list[Entry]]]:
        """Return the blocks and entries of a target for these options."""
        return target.choose(self.seeds, self.datasets, self.methods)


@dataclass(frozen=True, eq=False)
class Reproduction:
    """A target with the results of its blocks, and the folder of all targets."""

    target: Target
    folder: Path
    blocks: Sequence[BlockResults]

    @property
    def page_path(self) -> Path:
        """Path of its page; its figures are in the folder of the same name."""
        return self.folder / f"{self.target.name}.md"

    @property
    def n_failed(self) -> int:
        """Number of pairs of method and data set that failed."""
        return sum(len(block.errors()) for block in self.blocks)


def resolve_targets(name: str) -> list[Target]:
    """Return the target of a name; ``all`` stands for all targets, those of the paper first."""
    return [get_target(n) for n in (target_names() if name == ALL else (name,))]


def delete_records(targets: Sequence[Target], folder: Path, wanted: RunRequest) -> None:
    """Delete the records of the requested cells, so that each runs again once."""
    store = ResultStore(folder)
    with store.lock():
        old = {cell.id for target in targets for cell in list_cells(wanted.choose_blocks(target))}
        store.rewrite(record for i, record in store.read().items() if i not in old)


def run_target(
    target: Target, folder: Path, wanted: RunRequest, progress: ProgressCallback | None = None
) -> Reproduction:
    """Run the missing cells of a target and write its page and figures.

    The records of all targets are in one file, so a cell of two targets runs once.
    """
    cells = list_cells(wanted.choose_blocks(target))
    records = run_grid(cells, folder, jobs=wanted.jobs, progress=progress)
    return _write_results(target, folder, wanted, records)


def report_recorded(target: Target, folder: Path, wanted: RunRequest) -> Reproduction:
    """Write page and figures from the recorded results; missing numbers are left empty."""
    return _write_results(target, folder, wanted, ResultStore(folder).read().values())


def _write_results(
    target: Target, folder: Path, wanted: RunRequest, records: Iterable[Mapping[str, Any]]
) -> Reproduction:
    done = Reproduction(target, folder, join_results(wanted.choose_blocks(target), records))
    write_pages(done)
    return done


def write_pages(done: Reproduction) -> None:
    """Write the Markdown page and the figures of a target."""
    pictures = {}
    for block in done.blocks:
        try:
            picture = block_figure(block)
        except MissingDependencyError:
            picture = None  # the page is complete without the figure
        if picture is not None:
            pictures[block.block.name] = picture
            _write(done.folder / done.target.name / f"{block.block.name}.svg", picture)
    _write(done.page_path, render_page(done, pictures))
    headline = render_headline(done.blocks) if done.target.name == _HEADLINE_TARGET else None
    if headline is not None:
        _write(done.folder / HEADLINE, headline)


def render_page(done: Reproduction, pictures: Sequence[str] | dict[str, str]) -> str:
    """Return the Markdown page of a target."""
    parts = [f"# {done.target.title}", done.target.about.strip()]
    for summary in (goals_table(done.blocks), ablation_table(done.blocks)):
        if summary is not None:
            parts += [f"## {summary.title}", summary.markdown(with_title=False)]
            parts += [_GAP] if summary.header[-1] == "met?" else [_WORTH]
    for block in done.blocks:
        name = block.block.name
        parts.append(f"## {block.block.title}")
        parts += [f"- {line}" for line in block_notes(block)]
        first, *rest = block_tables(block)
        parts += [first.markdown(with_title=False), *(table.markdown() for table in rest)]
        if name in pictures:
            parts.append(f"![{block.block.title}]({done.target.name}/{name}.svg)")
    parts += ["## How these numbers were made", facts_table([done])]
    return "\n\n".join(parts) + "\n"


# pages that other commands write into the same folder: title and command
OTHER_PAGES = {
    "trust.md": ("Can the answers be trusted?", "python lab/scripts/trust.py"),
    "studio.md": (
        "The studio: labels saved, and waiting times",
        "python lab/scripts/studio_oracle.py",
    ),
    "pyg_transform.md": (
        "PyTorch Geometric's networks on the learned graph",
        "python lab/scripts/pyg_transform.py",
    ),
    "bench/compare.md": ("Time and memory", "make bench"),
    "mutants.md": ("Planted faults", "make mutants"),
}


def index_page(done: Sequence[Reproduction], folder: Path) -> str:
    """Return a page with links to all targets and to other pages of the folder."""
    links = [
        f"- [{d.target.title}]({d.page_path.name}): `glnn reproduce {d.target.name}`" for d in done
    ]
    links += [
        f"- [{title}]({name}): `{command}`"
        for name, (title, command) in OTHER_PAGES.items()
        if (folder / name).is_file()
    ]
    command = (
        "Made by `make results`. Every run is a line of [results.jsonl](results.jsonl), and each "
        "one can be [run again](../reproduce.md)."
    )
    return "\n".join(["# Results", "", command, "", *links, "", facts_table(done), ""])


def facts_table(done: Sequence[Reproduction]) -> str:
    """Return versions, commits, processors, seeds and times of the runs as a Markdown table."""
    by_id = {r["id"]: r for d in done for block in d.blocks for r in block.all_records()}
    records = list(by_id.values())
    rows: list[tuple[str, str]] = []
    for package in records[0]["versions"] if records else ():
        found = sorted({str(r["versions"].get(package)) for r in records})
        rows.append((package, ", ".join(found)))
    seeds = sorted({int(r["seed"]) for r in records})
    rows.append(("seeds", f"{seeds[0]} to {seeds[-1]}" if seeds else "none"))
    rows.append(("cells", str(len(records))))
    rows.append(("time of all cells together", _hours(sum(r["seconds"] for r in records))))
    rows.append(("time during which cells ran", _hours(busy_seconds(records))))
    rows.append(("threads a cell", "1"))
    return markdown_table(["", ""], rows)


def write_index(done: Sequence[Reproduction], folder: Path) -> None:
    """Write the page with links to all targets."""
    _write(folder / "README.md", index_page(done, folder))


def _hours(seconds: float | int) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min {rest:02d} s"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        file.write(text)


# The plan


def plan_targets(targets: Sequence[Target], wanted: RunRequest, folder: Path) -> Plan:
    """Plan the cells of some targets, each once, from the records of the folder."""
    cells = [cell for target in targets for cell in list_cells(wanted.choose_blocks(target))]
    return make_plan(cells, ResultStore(folder).read().values())


def plan_table(plan: Plan) -> PlainTable:
    """Tabulate the cells of each method, and the seconds of those with known times."""
    rows = []
    for method in (*plan.methods, "all"):
        keys = [key for key in plan.n_cells if method in (key[0], "all")]
        known = sum(plan.seconds.get(key, 0.0) for key in keys)
        counts = [sum(n.get(key, 0) for key in keys) for n in (plan.n_cells, plan.n_done)]
        n_datasets = len({dataset for _, dataset in keys})
        numbers = [str(n) for n in (n_datasets, *counts)]
        rows.append([method, *numbers, f"{known:,.0f}" if known else MISSING])
    header = ["method", "data sets", "cells", "finished", "core seconds"]
    return PlainTable("Cells to run, each once", header, rows)


def describe_plan(plan: Plan) -> str:
    """Return a sentence on finished cells and the expected time of the rest."""
    n_cells, n_done = sum(plan.n_cells.values()), sum(plan.n_done.values())
    words = f"{n_done} of {n_cells} cells are finished"
    if plan.n_unknown:
        words += f"; {plan.n_unknown} have no earlier time to estimate from"
    if plan.seconds_left:
        words += f"; the others need about {plan.seconds_left:,.0f} core seconds"
    return words + "."
