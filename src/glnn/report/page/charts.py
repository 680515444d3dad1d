"""The page's charts: Bokeh figures, and for each a frame with title, text and a table of numbers.

The page's script sets the colours of text and lines when it loads, to match the reader's theme.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

import numpy as np

from glnn.report.page.page_data import Curve, PageData, Search
from glnn.report.page.sections import count_changes
from glnn.report.text import format_percent

BLUE, ORANGE, GREY = "#4477AA", "#E8601C", "#8A909C"
SERIES = (BLUE, ORANGE, "#44AA99", "#AA4499", "#DDAA33", "#882255", "#999999", "#117733")
_HEIGHT = 290


def has_bokeh() -> bool:
    """Return whether Bokeh is installed; without it the page shows only the tables of numbers."""
    return find_spec("bokeh") is not None


def chart_json(figure: Any, target: str) -> dict[str, Any]:
    """Return a figure as JSON values that Bokeh's script shows in the element ``target``."""
    return dict(_bokeh("bokeh.embed").json_item(figure, target))


def bokeh_script() -> str:
    """Return Bokeh's script from the installed package."""
    script = files("bokeh") / "server" / "static" / "js" / "bokeh.min.js"
    return script.read_text(encoding="utf-8")


def reliability_chart(bins: Sequence[tuple[float, float, int]]) -> Any:
    """Draw accuracy against confidence, with the diagonal."""
    confidence, right, counts = (np.array(part, dtype=float) for part in zip(*bins))
    figure = _figure("confidence of the prediction", "share that is right", percent="both")
    figure.line([0, 1], [0, 1], color=GREY, line_dash="dashed", legend_label="perfect")
    columns = {"confidence": confidence, "right": right, "count": counts}
    source = _source(columns | {"size": 6 + 16 * np.sqrt(counts / max(counts.max(), 1))})
    figure.line("confidence", "right", source=source, color=BLUE, width=2, legend_label="measured")
    figure.scatter("confidence", "right", size="size", source=source, color=BLUE, name="hover")
    _hover(
        figure, {"confidence": "@confidence{0 %}", "right": "@right{0 %}", "nodes": "@count{0,0}"}
    )
    figure.x_range.start, figure.x_range.end = 0, 1.02
    figure.y_range.start, figure.y_range.end = 0, 1.05
    _legend_above(figure)
    return figure


def balance_chart(names: Sequence[str], given: Sequence[float], predicted: Sequence[float]) -> Any:
    """Draw each class's share of the given labels beside its share of all predictions."""
    return _bar_chart(
        names, {"given labels": given, "predictions": predicted}, "share of nodes", True
    )


def edges_chart(names: Sequence[str], added: Sequence[int], removed: Sequence[int]) -> Any:
    """Draw the number of links added and removed in each round."""
    return _bar_chart(names, {"added": added, "removed": removed}, "links", False)


def terms_chart(names: Sequence[str], rounds: Mapping[str, Sequence[float | int]]) -> Any:
    """Draw each term of the objective, one bar per round."""
    return _bar_chart(names, rounds, "value", False)


def metric_chart(columns: Sequence[tuple[str, float]]) -> Any:
    """Draw the weights of the most important columns, the heaviest on top."""
    names = shorten_names([name for name, _ in columns])
    weights = [weight for _, weight in columns]
    figure = _figure("weight in the learned metric", "", bars=names)
    source = _source({"name": names, "weight": weights})
    figure.hbar("name", right="weight", height=0.7, source=source, color=BLUE, name="hover")
    _hover(figure, {"column": "@name", "weight": "@weight{0.000}"})
    figure.x_range.start = 0
    return figure


def curves_chart(curves: Sequence[Curve], columns: Sequence[str], label: str, log: bool) -> Any:
    """Draw columns of the training history, one stage after another."""
    models = _bokeh("bokeh.models")
    figure = _figure("epoch", label, log=log)
    start = 0
    for curve in curves:
        n_epochs = max((len(curve.columns.get(name, ())) for name in columns), default=0)
        if not n_epochs:
            continue
        for name, colour in zip(columns, SERIES):
            _draw_stage(figure, curve, name, start, colour, log)
        line = models.Span(location=start, dimension="height", line_color=GREY, line_alpha=0.5)
        figure.add_layout(line)
        style = {"angle": np.pi / 2, "text_font_size": "11px", "x_offset": 14}
        figure.add_layout(models.Label(x=start, y=6, y_units="screen", text=curve.name, **style))
        start += n_epochs
    if figure.legend:
        _legend_above(figure)
    return figure


def trials_chart(search: Search) -> Any:
    """Draw the goal of each trial, the best so far, and the value of the unchanged preset."""
    figure = _figure("trial", f"{search.goal.replace('_', ' ')} on hidden labels")
    places = np.arange(1, len(search.values) + 1)
    style = {"mode": "after", "color": ORANGE, "width": 2, "legend_label": "best so far"}
    figure.step(places, search.best_so_far(), **style)
    source = _source({"trial": places, "value": search.values})
    style = {"size": 7, "color": BLUE, "legend_label": "a trial", "name": "hover"}
    figure.scatter("trial", "value", source=source, **style)
    preset = np.full(len(places), search.values[0])
    style = {"color": GREY, "line_dash": "dashed", "legend_label": "the preset"}
    figure.line(places, preset, **style)
    _hover(figure, {"trial": "@trial", search.goal.replace("_", " "): "@value{0.0000}"})
    _legend_above(figure)
    return figure


def parameter_chart(search: Search, name: str) -> Any:
    """Draw the goal against one parameter, over the trials that set it."""
    parts, values = zip(*search.points(name))
    goal = search.goal.replace("_", " ")
    figure = _figure(name, f"{goal} on hidden labels", log_x=name in search.log)
    source = _source({"part": parts, "value": values})
    figure.scatter("part", "value", size=7, color=BLUE, source=source, name="hover")
    _hover(figure, {name: "@part{0.[0000]}", goal: "@value{0.0000}"})
    return figure


def _draw_stage(figure: Any, curve: Curve, name: str, start: int, colour: str, log: bool) -> None:
    values = np.array([np.nan if v is None else v for v in curve.columns.get(name, ())], float)
    if log:
        values = np.where(values > 0, values, np.nan)
    if not np.isfinite(values).any():
        return
    words = name.replace("_", " ")
    source = _source({"epoch": start + np.arange(len(values)), "value": values})
    style = {"color": colour, "width": 1.6}
    drawn = figure.line("epoch", "value", source=source, legend_label=words, **style)
    tips = [("stage", curve.name), ("epoch", "@epoch"), (words, "@value{0.0000}")]
    figure.add_tools(_bokeh("bokeh.models").HoverTool(renderers=[drawn], tooltips=tips))


def _bar_chart(
    names: Sequence[str], series: Mapping[str, Sequence[float | int]], label: str, percent: bool
) -> Any:
    """Draw horizontal bars, side by side for each name, one per series."""
    transform = _bokeh("bokeh.transform")
    names = shorten_names(names)
    figure = _figure(label, "", percent="x" if percent else "", bars=names, n_each=len(series))
    keys = [f"s{k}" for k in range(len(series))]
    source = _source({"name": names} | dict(zip(keys, map(list, series.values()))))
    height = 0.8 / len(series)
    for k, (key, words) in enumerate(zip(keys, series)):
        at = transform.dodge("name", 0.4 - height * (k + 0.5), range=figure.y_range)
        style = {"height": 0.9 * height, "color": SERIES[k % len(SERIES)], "legend_label": words}
        drawn = figure.hbar(at, right=key, source=source, **style)
        number = "{0.0 %}" if percent else "{0,0.[000]}"
        tips = [("", "@name"), (words, f"@{key}{number}")]
        figure.add_tools(_bokeh("bokeh.models").HoverTool(renderers=[drawn], tooltips=tips))
    _legend_above(figure)
    return figure


def _legend_above(figure: Any) -> None:
    legend = figure.legend[0]
    legend.orientation, legend.ncols = "horizontal", 3
    figure.add_layout(legend, "above")


def shorten_names(names: Sequence[str], limit: int = 22) -> list[str]:
    """Return names short enough for an axis, made unique by a number.

    Examples
    --------
    >>> shorten_names(["a", "a", "b" * 30])
    ['a', 'a (2)', 'bbbbbbbbbbbbbbbbbbbbb…']
    """
    found: list[str] = []
    for name in names:
        short = name if len(name) <= limit else name[: limit - 1] + "…"
        n_before = sum(other == short or other.startswith(f"{short} (") for other in found)
        found.append(f"{short} ({n_before + 1})" if n_before else short)
    return found


def _figure(
    x: str,
    y: str,
    *,
    percent: str = "",
    log: bool = False,
    log_x: bool = False,
    bars: Sequence[str] = (),
    n_each: int = 1,
) -> Any:
    models = _bokeh("bokeh.models")
    figure = _bokeh("bokeh.plotting").figure(
        sizing_mode="stretch_width",
        height=max(140, 90 + 20 * len(bars) * n_each) if bars else _HEIGHT,
        y_range=models.FactorRange(factors=list(bars[::-1])) if bars else models.DataRange1d(),
        min_width=220,
        x_axis_label=x,
        y_axis_label=y,
        x_axis_type="log" if log_x else "auto",
        y_axis_type="log" if log else "auto",
        toolbar_location=None,
        tools="",
        background_fill_alpha=0.0,
        border_fill_alpha=0.0,
        outline_line_color=None,
    )
    for axis, name in ((figure.xaxis, "x"), (figure.yaxis, "y")):
        axis.minor_tick_line_color = None
        axis.axis_label_text_font_style = "normal"
        if percent in (name, "both"):
            axis.formatter = models.NumeralTickFormatter(format="0 %")
    return figure


def _hover(figure: Any, tips: Mapping[str, str]) -> None:
    figure.add_tools(_bokeh("bokeh.models").HoverTool(tooltips=list(tips.items()), name="hover"))


def _source(columns: Mapping[str, Any]) -> Any:
    return _bokeh("bokeh.models").ColumnDataSource(dict(columns))


def _bokeh(module: str) -> Any:
    """Import a module of Bokeh on first use, since the import is slow."""
    return import_module(module)


# Frames

_MAX_CHART_CLASSES = 30


@dataclass(frozen=True)
class Frame:
    """A chart with its title, text and table of numbers."""

    target: str  # id of the HTML element
    title: str
    words: str
    draw: Callable[[], Any]  # makes the Bokeh figure
    head: tuple[str, ...] = ()  # head of the table
    lines: tuple[tuple[str, ...], ...] = ()  # rows of the table


def error_frames(page: PageData) -> list[Frame]:
    """Return the charts on errors."""
    found = []
    evaluation = page.evaluation
    if evaluation is not None and evaluation.reliability:
        found.append(_reliability(evaluation.reliability, evaluation.calibration_error))
    if len(page.class_names) <= _MAX_CHART_CLASSES:
        found.append(_balance(page))
    return found


def learning_frames(page: PageData) -> list[Frame]:
    """Return the charts on how the graph was learned."""
    frames = (_edges(page), _terms(page), _metric(page), *_curves(page))
    return [frame for frame in frames if frame is not None]


def search_frames(page: PageData) -> list[Frame]:
    """Return the charts on the hyperparameter search: one of all trials, one per parameter."""
    search = page.search
    if search is None:
        return []
    goal = search.goal.replace("_", " ")
    trials = Frame(
        "chart-trials",
        "Trial by trial",
        "Each trial is scored on labels that its fits had not seen. The best of many trials is "
        "partly lucky, so its score is too optimistic; that of the nested estimate is not.",
        partial(trials_chart, search),
        ("trial", goal, *search.params),
        tuple(
            (
                str(k + 1),
                f"{value:.4f}",
                *(_format_value(parts[k]) for parts in search.params.values()),
            )
            for k, value in enumerate(search.values)
        ),
    )
    names = [name for name in search.params if search.points(name)]
    return [
        trials,
        *(_parameter(search, name, f"chart-trials-{k}") for k, name in enumerate(names)),
    ]


def _parameter(search: Search, name: str, target: str) -> Frame:
    goal = search.goal.replace("_", " ")
    return Frame(
        target,
        name,
        f"The {goal} of the trials that set this parameter.",
        partial(parameter_chart, search, name),
        (name, goal),
        tuple((f"{part:.4g}", f"{value:.4f}") for part, value in sorted(search.points(name))),
    )


def _format_value(part: float | int | None) -> str:
    return "preset" if part is None else f"{part:.4g}"


def _reliability(bins: tuple[tuple[float, float, int], ...], error: float | None) -> Frame:
    words = "" if error is None else f" The mean difference is {format_percent(error)}."
    return Frame(
        "chart-reliability",
        "Confidence and accuracy",
        f"The accuracy of the predictions at each level of confidence.{words}",
        partial(reliability_chart, bins),
        ("confidence", "right", "nodes"),
        tuple((format_percent(c), format_percent(r), f"{n:,}") for c, r, n in bins),
    )


def _balance(page: PageData) -> Frame:
    nodes, n_classes = page.nodes, len(page.class_names)
    given = np.bincount(nodes.truth[nodes.seen & (nodes.truth >= 0)], minlength=n_classes)
    predicted = np.bincount(nodes.predicted, minlength=n_classes)
    shares = [counts / max(counts.sum(), 1) for counts in (given, predicted)]
    return Frame(
        "chart-balance",
        "Class balance",
        "The share of each class among the given labels and among all predictions.",
        partial(balance_chart, page.class_names, shares[0].tolist(), shares[1].tolist()),
        ("class", "given labels", "predictions"),
        tuple(
            (
                name,
                f"{int(g):,} ({format_percent(float(gs))})",
                f"{int(p):,} ({format_percent(float(ps))})",
            )
            for name, g, p, gs, ps in zip(page.class_names, given, predicted, *shares)
        ),
    )


def _edges(page: PageData) -> Frame | None:
    rounds = [r for r in page.learning.rounds if r.graph is not None]
    graphs = [r.graph for r in rounds if r.graph is not None]
    names = [r.name for r in rounds]
    if page.graphs.given is not None:
        graphs, names = [page.graphs.given, *graphs], ["given graph", *names]
    if len(graphs) < 2:
        return None
    counted = count_changes(graphs)
    added, removed = [a for a, _ in counted], [r for _, r in counted]
    return Frame(
        "chart-edges",
        "Links added and removed",
        f"Each round compared with the one before it, starting from the {names[0]}.",
        partial(edges_chart, names[1:], added, removed),
        ("round", "added", "removed"),
        tuple((name, f"{a:,}", f"{r:,}") for name, (a, r) in zip(names[1:], counted)),
    )


def _terms(page: PageData) -> Frame | None:
    rounds = [r for r in page.learning.rounds if r.terms]
    if not rounds:
        return None
    names = list(dict.fromkeys(name for r in rounds for name in r.terms))
    columns = {r.name: [r.terms.get(n, 0.0) for n in names] for r in rounds}
    return Frame(
        "chart-terms",
        "The objective, term by term",
        "The graph step minimises the sum of these terms; each round solves its own problem.",
        partial(terms_chart, names, columns),
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
        "Most important columns",
        "Weights of the learned metric: how much each column counts when nodes are compared.",
        partial(metric_chart, columns),
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
                "One stage after another.",
                partial(curves_chart, curves, columns, label, log),
                ("stage", "epochs", *(f"last {column.replace('_', ' ')}" for column in columns)),
                tuple(
                    (
                        curve.name,
                        str(max(map(len, curve.columns.values()), default=0)),
                        *(_format_last(curve.columns.get(column, ())) for column in columns),
                    )
                    for curve in curves
                ),
            )
        )
    return frames


def _format_last(values: Any) -> str:
    known = [value for value in values if value is not None]
    return f"{known[-1]:.4g}" if known else "-"
