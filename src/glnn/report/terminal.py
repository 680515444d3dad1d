"""Results as tables for the screen."""

from collections.abc import Iterable, Sequence

from rich.markup import escape
from rich.table import Table

from glnn.quality import Evaluation
from glnn.quality.estimate import MethodScore
from glnn.quality.metrics import Interval
from glnn.report.compare import Comparison
from glnn.report.page.sections import lead, measure, measure_of
from glnn.report.results import FitResults, OnTestNodes, Score
from glnn.report.text import NOTHING, count, fact_rows, percent


def score_table(tested: OnTestNodes, scores: Iterable[Score] = ()) -> Table:
    """Return the fit beside plain methods on the test labels, and what the fit is ahead by.

    Parameters
    ----------
    tested
        The fit, and the methods that were judged.
    scores
        All methods; one that was not judged gets a line with the reason.
    """
    title = f"On {count(len(tested.own.judged), 'test label')}, in %"
    table = _quality_table(title, (tested.own, *tested.others))
    for score in scores:
        if score.note:
            table.add_row(escape(score.method), escape(score.note))
    return table


def estimate_table(estimate: Evaluation) -> Table:
    """Return the fit beside plain methods on hidden labels, and what the fit is ahead by."""
    title = f"On {len(estimate.own.judged):,} hidden labels, {len(estimate.folds)} folds, in %"
    return _quality_table(title, (estimate.own, *estimate.others))


def _quality_table(title: str, scores: Sequence[MethodScore]) -> Table:
    """Return methods that judged the same labels, the most accurate in bold."""
    columns = ("accuracy", "balanced", "macro-F1", "ahead in accuracy")
    table = _numbers("method", *columns, title=title)
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
        shown = NOTHING if run.accuracy is None else measure(run.accuracy)
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
        shown = NOTHING if found is None else lead(measure_of("lead", found))
        table.add_row(
            escape(f"{pair.first} - {pair.second}"),
            shown,
            f"{pair.n_judged:,}",
            percent(pair.same_predictions),
            f"{pair.n_shared:,} / {pair.n_first:,} / {pair.n_second:,}",
        )
    return table
