"""Results as tables for the terminal."""

from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from glnn.estimator import GLNNClassifier
from glnn.quality import Evaluation
from glnn.quality.metrics import Interval
from glnn.report.compare import RunPair, RunSummary
from glnn.report.results import Results
from glnn.report.text import (
    DASH,
    describe_suggestion,
    format_count,
    format_lead,
    format_percent,
    format_share,
)


def score_table(evaluation: Evaluation) -> Table:
    """Return the scores of the fit and of its rivals on the same labels, the best in bold."""
    n_folds, n_labels = len(evaluation.folds), len(evaluation.own.predictions)
    title = f"On {format_count(n_labels, 'test label')}, in %"
    if n_folds > 1:
        title = f"On {n_labels:,} hidden labels, {n_folds} folds, in %"
    columns = ("accuracy", "balanced", "ahead in accuracy", "seconds")
    table = _number_table("method", *columns, title=title)
    scores = (evaluation.own, *evaluation.others)
    best = max(score.accuracy for score in scores)
    for score in scores:
        table.add_row(
            escape(score.title),
            _format_interval(score.metrics["accuracy"]),
            f"{100 * score.metrics['balanced_accuracy'].value:.1f}",
            "" if score.difference is None else _format_interval(score.difference, "+"),
            f"{score.seconds:.1f}",
            style="bold" if score.accuracy == best else None,
        )
    return table


def _format_interval(one: Interval, sign: str = "") -> str:
    value, low, high = (100 * part for part in (one.value, one.low, one.high))
    return f"{value:{sign}.1f} [{low:{sign}.0f}, {high:{sign}.0f}]"


def column_table(columns: Sequence[tuple[str, str]]) -> Table:
    """Return what was done with each column of a table; neighbours that are alike share a line."""
    table = Table("column", "read as", title="Columns", title_justify="left")
    for what, group in groupby(columns, key=lambda row: row[1]):
        names = [name for name, _ in group]
        shown = ", ".join(names)
        if len(names) > 4:
            shown = f"{names[0]}, {names[1]}, ..., {names[-1]} ({len(names):,} columns)"
        table.add_row(escape(shown), escape(what))
    return table


def suggestions(results: Results, run: Path, k: int) -> list[dict[str, Any]]:
    """Return the ``k`` rows to label next, best first: id, prediction and reason."""
    nodes: Any = results.suggestions[:k]
    if len(nodes) < min(k, int((~results.seen).sum())):  # more than are stored
        nodes = GLNNClassifier.load(run).suggest_labels(k)["node"].tolist()
    return [
        {
            results.id_name: str(results.ids[node]),
            "predicted": results.class_names[results.predictions[node]],
            "probability": float(results.probabilities[node].max()),
            "why": describe_suggestion(results, node),
        }
        for node in nodes
    ]


def suggestion_table(found: list[dict[str, Any]]) -> Table:
    """Return a table of rows to label next."""
    table = Table(*found[0], title="Label these rows next, best first")
    table.title_justify, table.box, table.pad_edge = "left", SIMPLE, False
    for one in found:
        name, predicted, probability, why = one.values()
        table.add_row(escape(name), escape(predicted), f"{probability:.0%}", escape(why))
    return table


def _number_table(first: str, *columns: str, title: str) -> Table:
    """Return an empty table with right-aligned columns after the first."""
    table = Table(first, title=title, title_justify="left", min_width=len(title) + 4)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def run_table(runs: Sequence[RunSummary]) -> Table:
    """Return a table with a line for each run."""
    table = _number_table("run", "accuracy, unseen labels", "judged", "links", title="Runs")
    table.add_column("verdict")
    for run in runs:
        shown = DASH if run.accuracy is None else format_share(run.accuracy)
        table.add_row(
            escape(run.name), shown, f"{run.n_judged:,}", f"{run.n_links:,}", escape(run.verdict)
        )
    return table


def pair_table(pairs: Sequence[RunPair]) -> Table:
    """Return a table with a line for each pair of runs, on the nodes of both."""
    links = "links shared / only first / only second"
    columns = ("difference in points", "judged by both", "same prediction", links)
    table = _number_table("pair", *columns, title="Pairs, on common nodes")
    for pair in pairs:
        table.add_row(
            escape(f"{pair.first} - {pair.second}"),
            DASH if pair.difference is None else format_lead(pair.difference),
            f"{pair.n_judged:,}",
            format_percent(pair.same_predictions),
            f"{pair.n_shared:,} / {pair.n_first:,} / {pair.n_second:,}",
        )
    return table
