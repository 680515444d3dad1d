"""Results as tables for the terminal."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from glnn.quality import Evaluation
from glnn.quality.metrics import Interval
from glnn.quality.metrics import Score as MethodScore
from glnn.report.compare import Comparison
from glnn.report.page.sections import format_lead, format_share, interval_measure
from glnn.report.results import FitResults, HoldoutScores
from glnn.report.text import DASH, fact_rows, format_count, format_percent


def score_table(holdout: HoldoutScores) -> Table:
    """Return the scores of the fit and of its rivals on the test labels."""
    title = f"On {format_count(len(holdout.own.predictions), 'test label')}, in %"
    return _quality_table(title, (holdout.own, *holdout.others))


def estimate_table(estimate: Evaluation) -> Table:
    """Return the scores of the fit and of its rivals on held-out labels."""
    title = f"On {len(estimate.own.predictions):,} hidden labels, {len(estimate.folds)} folds, in %"
    return _quality_table(title, (estimate.own, *estimate.others))


def _quality_table(title: str, scores: Sequence[MethodScore]) -> Table:
    """Return the scores of methods on the same labels, the most accurate in bold."""
    columns = ("accuracy", "balanced", "ahead in accuracy", "seconds")
    table = _number_table("method", *columns, title=title)
    best = max(score.accuracy for score in scores)
    for score in scores:
        table.add_row(
            escape(score.title),
            _format_interval(score.metrics["accuracy"]),
            f"{100 * score.metrics['balanced_accuracy'].value:.1f}",
            "" if score.difference is None else _format_difference(score.difference),
            f"{score.seconds:.1f}",
            style="bold" if score.accuracy == best else None,
        )
    return table


def _format_interval(interval: Interval) -> str:
    return f"{100 * interval.value:.1f} [{100 * interval.low:.0f}, {100 * interval.high:.0f}]"


def _format_difference(interval: Interval) -> str:
    return f"{100 * interval.value:+.1f} [{100 * interval.low:+.0f}, {100 * interval.high:+.0f}]"


def fact_table(results: FitResults) -> Table:
    """Return the statistics of the learned graph."""
    table = Table("fact", "value", title="The learned graph", title_justify="left")
    for row in fact_rows(results.facts, results.certificate):
        table.add_row(*row)
    return table


def _number_table(first: str, *columns: str, title: str) -> Table:
    """Return an empty table with right-aligned columns after the first."""
    table = Table(first, title=title, title_justify="left", min_width=len(title) + 4)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def run_table(comparison: Comparison) -> Table:
    """Return a table with a line for each run."""
    table = _number_table("run", "accuracy, unseen labels", "judged", "links", title="Runs")
    table.add_column("verdict")
    for run in comparison.runs:
        shown = DASH if run.accuracy is None else format_share(run.accuracy)
        table.add_row(
            escape(run.name), shown, f"{run.n_judged:,}", f"{run.n_links:,}", escape(run.verdict)
        )
    return table


def pair_table(comparison: Comparison) -> Table:
    """Return a table with a line for each pair of runs, on the nodes of both."""
    links = "links shared / only first / only second"
    columns = ("difference in points", "judged by both", "same prediction", links)
    table = _number_table("pair", *columns, title="Pairs, on common nodes")
    for pair in comparison.pairs:
        found = pair.difference
        shown = DASH if found is None else format_lead(interval_measure("lead", found))
        table.add_row(
            escape(f"{pair.first} - {pair.second}"),
            shown,
            f"{pair.n_judged:,}",
            format_percent(pair.same_predictions),
            f"{pair.n_shared:,} / {pair.n_first:,} / {pair.n_second:,}",
        )
    return table
