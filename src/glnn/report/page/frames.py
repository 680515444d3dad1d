"""Each chart with its title, its words and its numbers as a table, for eyes and for ears."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from glnn.report.page import charts
from glnn.report.page.data import PageData, Search
from glnn.report.page.rounds import changes
from glnn.report.words import percent

_MOST_CLASSES = 30


@dataclass(frozen=True)
class Frame:
    """A chart, which ``draw`` makes, and what stands around it."""

    target: str
    title: str
    words: str
    draw: Callable[[], Any]
    head: tuple[str, ...] = ()
    lines: tuple[tuple[str, ...], ...] = ()


def error_frames(page: PageData) -> list[Frame]:
    """Return the charts on where the answer is wrong."""
    found = []
    evaluation = page.evaluation
    if evaluation is not None and evaluation.reliability:
        found.append(_reliability(evaluation.reliability, evaluation.calibration_error))
    if len(page.class_names) <= _MOST_CLASSES:
        found.append(_balance(page))
    return found


def learning_frames(page: PageData) -> list[Frame]:
    """Return the charts on how the graph was learned."""
    frames = (_edges(page), _terms(page), _metric(page), *_curves(page))
    return [frame for frame in frames if frame is not None]


def search_frames(page: PageData) -> list[Frame]:
    """Return the charts on how parameters were chosen: one of the trials, one a parameter."""
    search = page.search
    if search is None:
        return []
    goal = search.goal.replace("_", " ")
    trials = Frame(
        "chart-trials",
        "Trial by trial",
        "Each trial is judged on labels that its fits had not seen. The best of many is a lucky "
        "one: its number is too good, that of the nested estimate is not.",
        partial(charts.trials_chart, search),
        ("trial", goal, *search.params),
        tuple(
            (str(k + 1), f"{value:.4f}", *(_cell(parts[k]) for parts in search.params.values()))
            for k, value in enumerate(search.values)
        ),
    )
    names = [name for name in search.params if search.drawn(name)]
    return [
        trials,
        *(_parameter(search, name, f"chart-trials-{k}") for k, name in enumerate(names)),
    ]


def _parameter(search: Search, name: str, target: str) -> Frame:
    goal = search.goal.replace("_", " ")
    return Frame(
        target,
        name,
        f"The {goal} of the trials that set it.",
        partial(charts.parameter_chart, search, name),
        (name, goal),
        tuple((f"{part:.4g}", f"{value:.4f}") for part, value in sorted(search.drawn(name))),
    )


def _cell(part: float | int | None) -> str:
    return "preset" if part is None else f"{part:.4g}"


def _reliability(bins: tuple[tuple[float, float, int], ...], error: float | None) -> Frame:
    said = "" if error is None else f" The mean distance of the two is {percent(error)}."
    return Frame(
        "chart-reliability",
        "Is confidence deserved?",
        f"Of predictions made with so much confidence, so many are right.{said}",
        partial(charts.reliability_chart, bins),
        ("confidence", "right", "nodes"),
        tuple((percent(c), percent(r), f"{n:,}") for c, r, n in bins),
    )


def _balance(page: PageData) -> Frame:
    nodes, n_classes = page.nodes, len(page.class_names)
    given = np.bincount(nodes.truth[nodes.seen & (nodes.truth >= 0)], minlength=n_classes)
    predicted = np.bincount(nodes.predicted, minlength=n_classes)
    shares = [counts / max(counts.sum(), 1) for counts in (given, predicted)]
    return Frame(
        "chart-balance",
        "Class balance",
        "Each class's share of the labels that were given, beside its share of all predictions.",
        partial(charts.balance_chart, page.class_names, shares[0].tolist(), shares[1].tolist()),
        ("class", "given labels", "predictions"),
        tuple(
            (name, f"{int(g):,} ({percent(float(gs))})", f"{int(p):,} ({percent(float(ps))})")
            for name, g, p, gs, ps in zip(page.class_names, given, predicted, *shares)
        ),
    )


def _edges(page: PageData) -> Frame | None:
    rounds = [r for r in page.learning.rounds if r.graph is not None]
    graphs = [r.graph for r in rounds if r.graph is not None]
    names = [_named(r.name, r.undone) for r in rounds]
    if page.graphs.given is not None:
        graphs, names = [page.graphs.given, *graphs], ["given graph", *names]
    if len(graphs) < 2:
        return None
    counted = changes(graphs)
    added, removed = [a for a, _ in counted], [r for _, r in counted]
    return Frame(
        "chart-edges",
        "Links added and removed",
        f"Each round beside the one before it, beginning with the {names[0]}.",
        partial(charts.edges_chart, names[1:], added, removed),
        ("round", "added", "removed"),
        tuple((name, f"{a:,}", f"{r:,}") for name, (a, r) in zip(names[1:], counted)),
    )


def _terms(page: PageData) -> Frame | None:
    rounds = [r for r in page.learning.rounds if r.terms]
    if not rounds:
        return None
    names = list(dict.fromkeys(name for r in rounds for name in r.terms))
    columns = {_named(r.name, r.undone): [r.terms.get(n, 0.0) for n in names] for r in rounds}
    return Frame(
        "chart-terms",
        "The objective, term by term",
        "What the graph step minimises is the sum of these; each round has its own problem.",
        partial(charts.terms_chart, names, columns),
        ("term", *columns),
        tuple(
            (name, *(f"{values[k]:.4g}" for values in columns.values()))
            for k, name in enumerate(names)
        ),
    )


def _metric(page: PageData) -> Frame | None:
    columns = page.learning.metric
    if not columns:
        return None
    return Frame(
        "chart-metric",
        "Columns that count",
        "Weights of the learned metric: how much each column says about who belongs together.",
        partial(charts.metric_chart, columns),
        ("column", "weight"),
        tuple((name, f"{weight:.3f}") for name, weight in columns),
    )


def _curves(page: PageData) -> list[Frame]:
    curves = page.learning.curves
    shown = (
        ("loss", ("loss", "validation_loss"), "loss (logarithmic)", True),
        ("accuracy", ("validation_accuracy",), "accuracy on validation nodes", False),
    )
    frames = []
    for name, columns, label, log in shown:
        if not any(column in curve.columns for curve in curves for column in columns):
            continue
        frames.append(
            Frame(
                f"chart-{name}",
                f"Training: {name}",
                "Stage after stage; a stage that was undone is pale and said to be so.",
                partial(charts.curves_chart, curves, columns, label, log),
                ("stage", "epochs", *(f"last {column.replace('_', ' ')}" for column in columns)),
                tuple(
                    (
                        _named(curve.name, curve.undone),
                        str(max(map(len, curve.columns.values()), default=0)),
                        *(_last(curve.columns.get(column, ())) for column in columns),
                    )
                    for curve in curves
                ),
            )
        )
    return frames


def _last(values: Any) -> str:
    known = [value for value in values if value is not None]
    return f"{known[-1]:.4g}" if known else "-"


def _named(name: str, undone: bool) -> str:
    return f"{name} (undone)" if undone else name
