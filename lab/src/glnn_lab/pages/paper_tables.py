"""Tables of our numbers and the paper's, for the terminal and as Markdown."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from glnn_lab.experiments.aggregate import Paired, Summary
from glnn_lab.experiments.datasets import dataset_title
from glnn_lab.experiments.methods import METHODS
from glnn_lab.experiments.records import REFERENCE, BlockResults, Value


def markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    r"""Return a Markdown table; vertical bars in cells are escaped.

    Examples
    --------
    >>> print(markdown_table(["a", "b"], [["1", "x|y"]]))
    | a | b |
    |---|---|
    | 1 | x\|y |
    """
    lines = [list(header), *(list(row) for row in rows)]
    cells = [[" ".join(cell.replace("|", "\\|").split()) for cell in line] for line in lines]
    printed = [f"| {' | '.join(line)} |" for line in cells]
    return "\n".join([printed[0], "|" + "---|" * len(header), *printed[1:]])


MISSING = "–"


@dataclass(frozen=True)
class PlainTable:
    """A table of text with a title and a header."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self, *, with_title: bool = True) -> str:
        """Return the table as Markdown, with or without its title."""
        table = markdown_table(self.header, self.rows)
        return f"**{self.title}**\n\n{table}" if with_title else table

    def rich(self) -> Table:
        """Return the table for a terminal."""
        table = Table(title=self.title, title_justify="left")
        for k, name in enumerate(self.header):
            table.add_column(name, justify="left" if k == 0 else "right", no_wrap=k == 0)
        for row in self.rows:
            table.add_row(*row)
        return table


def block_tables(results: BlockResults) -> list[PlainTable]:
    """Return all tables of a block; the first has its accuracies."""
    if results.block.view == "graphs":
        return [graph_table(results)]
    by_axis = results.block.view == "axis"
    tables = [axis_table(results) if by_axis else method_table(results)]
    if results.block.is_ablation:  # ablation_table has the differences
        return tables
    if results.block.goals or not by_axis:
        tables.append(cost_table(results))
    others = [name for name in results.methods if name != REFERENCE]
    if REFERENCE in results.methods and others:
        tables.insert(1, paired_table(results, others))
    return tables


def method_table(results: BlockResults) -> PlainTable:
    """Tabulate methods by data sets: mean ± deviation, the paper's number in brackets."""
    rows = [
        [METHODS[m].title, *(_format_number(results, m, d, None) for d in results.datasets)]
        for m in results.methods
    ]
    header = ["method", *(dataset_title(d) for d in results.datasets)]
    return PlainTable(results.block.title, header, rows)


def axis_table(results: BlockResults) -> PlainTable:
    """Tabulate data sets and methods along the axis."""
    axis = results.block.axis
    assert axis is not None
    rows = [
        [
            dataset_title(d),
            METHODS[m].title,
            *(_format_number(results, m, d, v) for v in results.values),
        ]
        for d in results.datasets
        for m in results.methods
    ]
    header = [
        "data set",
        "method",
        *(f"{axis.label} {v:g}" for v in results.values if v is not None),
    ]
    return PlainTable(results.block.title, header, rows)


def paired_table(results: BlockResults, others: Sequence[str]) -> PlainTable:
    """Tabulate the differences of the default to each method on the same seeds, with tests."""
    axis = results.block.axis
    rows = [
        [
            dataset_title(d),
            METHODS[m].title,
            *([] if v is None else [f"{v:g}"]),
            *format_difference(found),
        ]
        for d in results.datasets
        for m in others
        for v in results.values
        if (found := results.compare_with(m, d, v)) is not None
    ]
    at = [] if axis is None else [axis.label]
    header = ["data set", "against", *at, "difference", "95 % interval", "better / worse"]
    title = f"{METHODS[REFERENCE].title} minus each method, in points, on the same seeds"
    return PlainTable(title, [*header, "p (t)", "p (Wilcoxon)"], rows)


def cost_table(results: BlockResults) -> PlainTable:
    """Tabulate seconds and peak memory of one fit on one thread, and the number of runs."""
    by_axis = results.block.axis is not None
    rows = [
        [
            METHODS[m].title,
            *(_format_cost(results, m, d, v) for d in results.datasets for v in results.values),
        ]
        for m in results.methods
    ]
    names = [
        dataset_title(d) + (f", {v:g}" if by_axis else "")
        for d in results.datasets
        for v in results.values
    ]
    title = "Mean time of a fit on one thread, peak memory of its process, number of runs"
    return PlainTable(title, ["method", *names], rows)


def graph_table(results: BlockResults) -> PlainTable:
    """Tabulate statistics of the learned graphs, as means over the seeds."""
    rows = []
    for d in results.datasets:
        for m in results.methods:
            runs = [record["snapshots"] for record in results.records(m, d)]
            rows += [[dataset_title(d), *_graph_row(step)] for step in zip(*runs)]
    header = ["data set", "graph", "distance", "sparsity", "edges", "new", "lost"]
    title = f"{results.block.title}: means over the seeds"
    return PlainTable(title, [*header, "new that join equal classes"], rows)


def format_mean(summary: Summary | None, paper: float | None = None) -> str:
    """Return a mean with its deviation, the paper's number in brackets.

    Examples
    --------
    >>> format_mean(Summary.of([80.0, 82.0]), 81.5)
    '81.0 ± 1.4 (81.5)'
    """
    if summary is None:
        return MISSING if paper is None else f"{MISSING} ({paper:.1f})"
    deviation = "" if math.isnan(summary.sd) else f" ± {summary.sd:.1f}"
    return f"{summary.mean:.1f}{deviation}" + ("" if paper is None else f" ({paper:.1f})")


def format_difference(found: Paired) -> list[str]:
    """Return difference, interval, wins and losses, and both p-values as text."""
    mean = found.difference
    return [
        f"{mean.mean:+.2f}",
        f"[{mean.low:+.2f}, {mean.high:+.2f}]",
        f"{found.n_better} / {found.n_worse}",
        _format_p_value(found.p_t),
        _format_p_value(found.p_wilcoxon),
    ]


def block_notes(results: BlockResults) -> list[str]:
    """Return the notes on a block: its note, rules and errors."""
    block, lines = results.block, []
    if block.note:
        lines.append(block.note)
    for rule in (*block.adjust, *block.skip):
        is_skip = rule in block.skip
        sets = [dataset_title(d) for d in rule["datasets"] if d in results.datasets]
        names = [METHODS[m].title for m in rule["methods"] if is_skip or m in results.methods]
        if sets and names:
            kind = "not run, " if is_skip else ""
            lines.append(f"{'; '.join(names)} on {', '.join(sets)}: {kind}{rule['why']}.")
    return [*lines, *(f"Failed: {line}" for line in results.errors())]


def _format_number(results: BlockResults, method: str, dataset: str, value: Value) -> str:
    paper = results.published_value(method, dataset, value)
    return format_mean(results.summary(method, dataset, value), paper)


def _format_cost(results: BlockResults, method: str, dataset: str, value: Value) -> str:
    seconds, memory = (
        results.summary(method, dataset, value, key=key) for key in ("seconds", "peak_memory_mb")
    )
    if seconds is None or memory is None:
        return MISSING
    return f"{seconds.mean:.1f} s, {memory.mean:.0f} MB, {seconds.n}"


def _format_p_value(p: float) -> str:
    if math.isnan(p):
        return MISSING
    return "< 0.0001" if p < 1e-4 else f"{p:.4f}"


def _graph_row(step: Sequence[dict[str, Any]]) -> list[str]:
    first = step[0]
    name = "given" if first["step"] == "given" else f"{first['step']} {first['number']}"
    mean = {
        key: Summary.of([s[key] for s in step]).mean
        for key in ("distance", "sparsity", "n_edges", "n_new", "n_lost", "equal_new")
    }
    known = sum(s["n_new_labelled"] for s in step)
    share = f" ({100 * sum(s['equal_new'] for s in step) / known:.0f} %)" if known else ""
    counts = [f"{mean[key]:,.0f}" for key in ("n_edges", "n_new", "n_lost", "equal_new")]
    return [
        name,
        f"{mean['distance']:.3f}",
        f"{mean['sparsity']:.4f}",
        *counts[:3],
        counts[3] + share,
    ]
