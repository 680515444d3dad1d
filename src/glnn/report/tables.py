"""Results as tables for the screen."""

from collections.abc import Iterable

from rich.markup import escape
from rich.table import Table

from glnn.quality import Evaluation
from glnn.quality.intervals import Interval
from glnn.report.compare import Comparison
from glnn.report.page.judged import measure_of
from glnn.report.page.numbers import lead, measure
from glnn.report.results import FitResults
from glnn.report.tested import Score
from glnn.report.words import fact_rows, percent


def score_rows(scores: Iterable[Score]) -> list[tuple[str, str, str]]:
    """Return method, test accuracy and seconds of each score, or why there is none."""
    return [
        (score.method, score.note or percent(score.accuracy), f"{score.seconds:.1f}")
        for score in scores
    ]


def score_table(results: FitResults) -> Table:
    """Return the accuracies side by side, the best in bold."""
    title = "Accuracy on the test nodes, same labels"
    table = _numbers("method", "accuracy", "seconds", title=title)
    known = [score.accuracy for score in results.scores if score.accuracy is not None]
    for score, row in zip(results.scores, score_rows(results.scores)):
        best = bool(known) and score.accuracy == max(known)
        table.add_row(*row, style="bold" if best else None)
    return table


def estimate_table(estimate: Evaluation) -> Table:
    """Return the fit beside plain methods on hidden labels, and what the fit is ahead by."""
    title = f"On {len(estimate.own.judged):,} hidden labels, {len(estimate.folds)} folds, in %"
    columns = ("accuracy", "balanced", "macro-F1", "ahead in accuracy")
    table = _numbers("method", *columns, title=title)
    scores = (estimate.own, *estimate.others)
    best = max(score.metrics["accuracy"].value for score in scores)
    for score in scores:
        found = score.metrics
        cells = [_with_width(found[name]) for name in ("accuracy", "balanced_accuracy", "macro_f1")]
        ahead = "" if score.difference is None else _signed(score.difference)
        style = "bold" if found["accuracy"].value == best else None
        table.add_row(score.title, *cells, ahead, style=style)
    return table


def _with_width(interval: Interval) -> str:
    return f"{100 * interval.value:.1f} ± {100 * interval.half_width:.0f}"


def _signed(interval: Interval) -> str:
    return f"{100 * interval.value:+.1f} [{100 * interval.low:+.0f}, {100 * interval.high:+.0f}]"


def fact_table(results: FitResults) -> Table:
    """Return the learned graph in numbers."""
    table = Table("fact", "value", title="The learned graph", title_justify="left")
    for row in fact_rows(results.facts, results.certificate):
        table.add_row(*row)
    return table


def _numbers(first: str, *columns: str, title: str) -> Table:
    """Return an empty table whose columns after the first are for numbers."""
    table = Table(first, title=title, title_justify="left", min_width=len(title) + 4)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def run_table(comparison: Comparison) -> Table:
    """Return one line a run: accuracy on unseen labels, links, verdict."""
    table = _numbers("run", "accuracy, unseen labels", "judged", "links", title="Runs")
    table.add_column("verdict")
    for run in comparison.runs:
        shown = "-" if run.accuracy is None else measure(run.accuracy)
        table.add_row(
            escape(run.name), shown, f"{run.n_judged:,}", f"{run.n_links:,}", escape(run.verdict)
        )
    return table


def pair_table(comparison: Comparison) -> Table:
    """Return one line a pair of runs, on the nodes that both have."""
    links = "links shared / only first / only second"
    columns = ("difference in points", "judged by both", "same prediction", links)
    table = _numbers("pair", *columns, title="Pairs, on common nodes")
    for pair in comparison.pairs:
        found = pair.difference
        shown = "-" if found is None else lead(measure_of("lead", found))
        table.add_row(
            escape(f"{pair.first} - {pair.second}"),
            shown,
            f"{pair.n_judged:,}",
            percent(pair.same_predictions),
            f"{pair.n_shared:,} / {pair.n_first:,} / {pair.n_second:,}",
        )
    return table
