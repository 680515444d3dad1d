"""The page's charts: Bokeh figures, and for each a frame with title, text and a table of numbers.

The page's script sets the colours of text and lines when it loads, to match the reader's theme.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from glnn._utils import import_optional
from glnn.data.files import one_line
from glnn.quality.metrics import reliability
from glnn.report.links import merge_links
from glnn.report.page.sections import training_curves
from glnn.report.results import Results, Search
from glnn.report.text import format_percent

BLUE, ORANGE, GREY = "#4477AA", "#E8601C", "#8A909C"
SERIES = (BLUE, ORANGE, "#44AA99", "#AA4499", "#DDAA33", "#882255", "#999999", "#117733")


def has_bokeh() -> bool:
    """Return whether Bokeh is installed; without it the page shows only the tables of numbers."""
    return find_spec("bokeh") is not None


def chart_json(figure: Any, target: str) -> dict[str, Any]:
    """Return a figure as JSON values that Bokeh's script shows in the element ``target``.

    Its legend is put above it.
    """
    if figure.legend:
        legend = figure.legend[0]
        legend.orientation, legend.ncols = "horizontal", 3
        figure.add_layout(legend, "above")
    return dict(import_optional("bokeh.embed").json_item(figure, target))


def bokeh_script() -> str:
    """Return Bokeh's script from the installed package."""
    script = files("bokeh") / "server" / "static" / "js" / "bokeh.min.js"
    return script.read_text(encoding="utf-8")


def reliability_chart(bins: Mapping[str, np.ndarray]) -> Any:
    """Draw accuracy against confidence, with the diagonal."""
    confidence, right, counts = bins["confidence"], bins["accuracy"], bins["count"]
    figure = _figure("confidence of the prediction", "share that is right", percent="both")
    figure.line([0, 1], [0, 1], color=GREY, line_dash="dashed", legend_label="perfect")
    figure.line(confidence, right, color=BLUE, width=2, legend_label="measured")
    size = 6 + 16 * np.sqrt(counts / max(counts.max(), 1))
    source = {"confidence": confidence, "right": right, "count": counts, "size": size}
    drawn = figure.scatter("confidence", "right", size="size", source=source, color=BLUE)
    tips = {"confidence": "@confidence{0 %}", "right": "@right{0 %}", "rows": "@count{0,0}"}
    _hover(figure, drawn, tips)
    figure.x_range.start, figure.x_range.end = 0, 1.02
    figure.y_range.start, figure.y_range.end = 0, 1.05
    return figure


def curves_chart(
    curves: Sequence[tuple[str, pd.DataFrame]], columns: Sequence[str], label: str, log: bool
) -> Any:
    """Draw columns of the training history, one stage after another."""
    models = import_optional("bokeh.models")
    figure = _figure("epoch", label, log=log)
    start = 0
    for stage, values in curves:
        shown = {name: values[name].to_numpy(float) for name in columns if name in values}
        for colour, (name, numbers) in zip(SERIES, shown.items()):
            if log:
                numbers = np.where(numbers > 0, numbers, np.nan)
            words = name.replace("_", " ")
            drawn = figure.line(
                "epoch",
                "value",
                source={"epoch": start + np.arange(len(numbers)), "value": numbers},
                color=colour,
                width=1.6,
                legend_label=words,
            )
            _hover(figure, drawn, {"stage": stage, "epoch": "@epoch", words: "@value{0.0000}"})
        if shown:
            line = models.Span(location=start, dimension="height", line_color=GREY, line_alpha=0.5)
            figure.add_layout(line)
            text = models.Label(
                x=start,
                y=6,
                y_units="screen",
                x_offset=14,
                angle=np.pi / 2,
                text=stage,
                text_font_size="11px",
            )
            figure.add_layout(text)
            start += len(values)
    return figure


def trials_chart(search: Search) -> Any:
    """Draw the goal of each trial, the best so far, and the value of the unchanged preset."""
    figure = _figure("trial", f"{search.goal.replace('_', ' ')} on hidden labels")
    places = np.arange(1, len(search.values) + 1)
    better = np.minimum if search.goal == "log_loss" else np.maximum
    best = better.accumulate(np.asarray(search.values, dtype=float))
    figure.step(places, best, mode="after", color=ORANGE, width=2, legend_label="best so far")
    source = {"trial": places, "value": search.values}
    drawn = figure.scatter(
        "trial", "value", source=source, size=7, color=BLUE, legend_label="a trial"
    )
    preset = np.full(len(places), search.values[0])
    figure.line(places, preset, color=GREY, line_dash="dashed", legend_label="the preset")
    _hover(figure, drawn, {"trial": "@trial", search.goal.replace("_", " "): "@value{0.0000}"})
    return figure


def bar_chart(
    names: Sequence[str],
    series: Mapping[str, Sequence[float | int]],
    label: str,
    *,
    percent: bool = False,
) -> Any:
    """Draw horizontal bars, side by side for each name, one per series."""
    transform = import_optional("bokeh.transform")
    names = shorten_names(names)
    rows = import_optional("bokeh.models").FactorRange(factors=names[::-1])
    height = max(140, 90 + 20 * len(names) * len(series))
    figure = _figure(label, "", percent="x" if percent else "", y_range=rows, height=height)
    width, number = 0.8 / len(series), "{0.0 %}" if percent else "{0,0.[000]}"
    for k, (words, values) in enumerate(series.items()):
        at = transform.dodge("name", 0.4 - width * (k + 0.5), range=rows)
        drawn = figure.hbar(
            at,
            right="value",
            height=0.9 * width,
            source={"name": names, "value": list(values)},
            color=SERIES[k % len(SERIES)],
            legend_label=words,
        )
        _hover(figure, drawn, {"": "@name", words: f"@value{number}"})
    return figure


def shorten_names(names: Sequence[str]) -> list[str]:
    """Return names short enough for an axis, made unique by a number."""
    found: list[str] = []
    for name in names:
        short = one_line(name, limit=22)
        n_before = sum(other == short or other.startswith(f"{short} (") for other in found)
        found.append(f"{short} ({n_before + 1})" if n_before else short)
    return found


def _figure(
    x: str, y: str, *, percent: str = "", log: bool = False, height: int = 290, **more: Any
) -> Any:
    models = import_optional("bokeh.models")
    figure = import_optional("bokeh.plotting").figure(
        height=height,
        sizing_mode="stretch_width",
        min_width=220,
        x_axis_label=x,
        y_axis_label=y,
        y_axis_type="log" if log else "auto",
        toolbar_location=None,
        tools="",
        background_fill_alpha=0.0,
        border_fill_alpha=0.0,
        outline_line_color=None,
        **more,
    )
    for axis, name in ((figure.xaxis, "x"), (figure.yaxis, "y")):
        axis.minor_tick_line_color = None
        axis.axis_label_text_font_style = "normal"
        if percent in (name, "both"):
            axis.formatter = models.NumeralTickFormatter(format="0 %")
    return figure


def _hover(figure: Any, drawn: Any, tips: Mapping[str, str]) -> None:
    """Show these numbers of a point that was drawn when the mouse is on it."""
    models = import_optional("bokeh.models")
    figure.add_tools(models.HoverTool(renderers=[drawn], tooltips=list(tips.items())))


# Frames

_MAX_CHART_CLASSES = 30


@dataclass(frozen=True)
class Frame:
    """A chart with its title, text and table of numbers."""

    target: str  # id of the HTML element
    title: str
    words: str
    draw: Callable[[], Any]  # makes the Bokeh figure
    head: tuple[str, ...]  # head of the table
    lines: Sequence[Sequence[str]]  # rows of the table


def error_frames(results: Results) -> list[Frame]:
    """Return the charts on errors."""
    found = [_balance(results)] if len(results.class_names) <= _MAX_CHART_CLASSES else []
    evaluation = results.evaluation
    if evaluation is not None:
        bins = reliability(evaluation.own.predictions)
        error = format_percent(evaluation.own.metrics["calibration_error"].value)
        words = "The accuracy of the predictions at each level of confidence. The calibration "
        words += f"error, their mean difference less what chance explains, is {error}."
        head, draw = ("confidence", "right", "rows"), partial(reliability_chart, bins)
        rows = zip(bins["confidence"], bins["accuracy"], bins["count"])
        lines = [(format_percent(c), format_percent(r), f"{n:,}") for c, r, n in rows]
        title = "Confidence and accuracy"
        found.append(Frame("chart-reliability", title, words, draw, head, lines))
    return found


def _balance(results: Results) -> Frame:
    parts = {"given labels": results.labels[results.seen], "predictions": results.predictions}
    series, columns, names = {}, [], results.class_names
    for key, part in parts.items():
        counts = np.bincount(part, minlength=len(names))
        series[key] = (counts / max(counts.sum(), 1)).tolist()
        columns.append([f"{n:,} ({format_percent(s)})" for n, s in zip(counts, series[key])])
    return Frame(
        "chart-balance",
        "Class balance",
        "The share of each class among the given labels and among all predictions.",
        partial(bar_chart, names, series, "share of rows", percent=True),
        ("class", *series),
        list(zip(names, *columns)),
    )


def learning_frames(results: Results) -> list[Frame]:
    """Return the charts on how the graph was learned."""
    found = []
    graphs = {} if results.given is None else {"given graph": results.given}
    graphs |= {r.name: r.graph for r in results.rounds}
    if len(graphs) > 1:
        first, *names = graphs
        fates = [merge_links(b, a).count_fates() for a, b in pairwise(graphs.values())]
        series = {"added": [fate[1] for fate in fates], "removed": [fate[2] for fate in fates]}
        words = f"Each round compared with the one before it, starting from the {first}."
        title = "Links added and removed"
        found.append(_bar_frame("edges", title, words, "round", names, series, "links", ",d"))
    terms = list(dict.fromkeys(name for r in results.rounds for name in r.terms))
    if terms:
        values = {r.name: [r.terms.get(n, 0.0) for n in terms] for r in results.rounds if r.terms}
        words = (
            "The graph step minimises the sum of these terms; each round solves its own problem."
        )
        title, names = "The objective, term by term", [name.replace("_", " ") for name in terms]
        found.append(_bar_frame("terms", title, words, "term", names, values, "value", ".4g"))
    return found + _curve_frames(results)


def column_frames(results: Results) -> list[Frame]:
    """Return the chart of the columns with most weight in the learned metric."""
    if not results.metric:
        return []
    names, weights = zip(*results.metric)
    words = "How much each column counts when rows are compared with each other."
    about = "metric", "Columns that count", words, "column"
    label = "weight in the comparison"
    return [_bar_frame(*about, names, {"weight": weights}, label, ".3f")]


def _bar_frame(
    name: str,
    title: str,
    words: str,
    head: str,
    names: Sequence[str],
    series: Mapping[str, Sequence[float | int]],
    label: str,
    form: str,
) -> Frame:
    """Return bars for each name, one per series, and the same numbers in a table."""
    lines = [
        (one, *(f"{values[k]:{form}}" for values in series.values())) for k, one in enumerate(names)
    ]
    draw = partial(bar_chart, names, series, label)
    return Frame(f"chart-{name}", title, words, draw, (head, *series), lines)


def _curve_frames(results: Results) -> list[Frame]:
    curves = training_curves(results.history)
    frames = []
    for name, columns, label, log in (
        ("loss", ("loss", "validation_loss"), "loss (logarithmic)", True),
        ("accuracy", ("validation_accuracy",), "accuracy on validation nodes", False),
    ):
        lines = []
        for stage, values in curves:
            last = [f"{values[name].iloc[-1]:.4g}" if name in values else "-" for name in columns]
            lines.append((stage, str(len(values)), *last))
        if any(column in values for _, values in curves for column in columns):
            head = ("stage", "epochs", *(f"last {column.replace('_', ' ')}" for column in columns))
            draw = partial(curves_chart, curves, columns, label, log)
            words = "The stages of training, one after another."
            frames.append(Frame(f"chart-{name}", f"Training: {name}", words, draw, head, lines))
    return frames


def search_frames(results: Results) -> list[Frame]:
    """Return the chart of the trials of the hyperparameter search, if there was one."""
    search = results.search
    if search is None:
        return []
    lines = []
    for k, value in enumerate(search.values):
        parts = [part[k] for part in search.params.values()]
        shown = ["preset" if part is None else f"{part:.4g}" for part in parts]
        lines.append((str(k + 1), f"{value:.4f}", *shown))
    words = (
        "Each trial is scored on labels that its fits had not seen. The best of many trials is "
        "best partly by luck, so its score is too optimistic; the nested estimate is not."
    )
    head = ("trial", search.goal.replace("_", " "), *search.params)
    draw = partial(trials_chart, search)
    return [Frame("chart-trials", "Trial by trial", words, draw, head, lines)]
