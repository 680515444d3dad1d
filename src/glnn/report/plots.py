"""Pure functions from results to matplotlib figures; nothing is shown or saved here."""

import io
from importlib import import_module
from typing import Any

import numpy as np

from glnn.exceptions import MissingDependencyError
from glnn.report.facts import class_mixing, edges_of
from glnn.report.layout import plane_layout
from glnn.report.palette import INK, PALE, colour_and_mark
from glnn.report.results import FitResults

MOST_EDGES = 20_000
MOST_NODES = 20_000
_MOST_IN_LEGEND = 16
_MOST_IN_GRID = 12


def blank_figure(width: float, height: float) -> Any:
    """Return an empty figure; without matplotlib, say which extra brings it."""
    try:
        figure = import_module("matplotlib.figure")
    except ImportError as error:
        raise MissingDependencyError(
            "pictures need the package matplotlib, which is not installed. "
            "Install it with: pip install 'glnn[report]'"
        ) from error
    return figure.Figure(figsize=(width, height), layout="constrained", facecolor="white")


def graph_figure(results: FitResults) -> Any:
    """Draw the learned graph, coloured by predicted class, beside how its classes mix."""
    figure = blank_figure(13.0, 7.0)
    main, side = figure.subplots(1, 2, width_ratios=(1.75, 1))
    figure.suptitle(_title(results), x=0.012, ha="left", fontsize=14, color=INK, weight="bold")
    _draw_nodes(main, results)
    _draw_mixing(side, results)
    return figure


def curves_figure(results: FitResults) -> Any:
    """Draw loss and, where there are validation nodes, their accuracy over all epochs."""
    has_validation = "validation_accuracy" in results.history[0]
    figure = blank_figure(9.0, 3.2)
    axes = figure.subplots(1, 2 if has_validation else 1, squeeze=False)[0]
    _draw_curves(axes[0], results, ("loss", "validation_loss"), "loss")
    axes[0].set_yscale("log")
    ticker = import_module("matplotlib.ticker")
    axes[0].yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5)))
    axes[0].yaxis.set_major_formatter("{x:g}")
    axes[0].yaxis.set_minor_locator(ticker.NullLocator())
    if has_validation:
        _draw_curves(axes[1], results, ("validation_accuracy",), "accuracy")
    return figure


def degrees_figure(results: FitResults) -> Any:
    """Draw how many neighbours nodes have, and how heavy edges are."""
    figure = blank_figure(9.0, 2.8)
    left, right = figure.subplots(1, 2)
    i, j = edges_of(results.adjacency)
    degree = np.bincount(np.concatenate([i, j]), minlength=results.data.n_nodes)
    weights = np.asarray(results.adjacency[i, j]).ravel()
    width = max(1, int(degree.max()) // 40)
    steps = np.arange(0, degree.max() + width + 1, width) - 0.5
    for axis, values, bins in ((left, degree, steps), (right, weights, 30)):
        axis.hist(values, bins=bins, color="#4477AA", rwidth=0.9)
        _plain(axis)
    left.set_xlabel("neighbours", color=INK)
    right.set_xlabel("edge weight", color=INK)
    left.set_ylabel("nodes", color=INK)
    right.set_ylabel("edges", color=INK)
    return figure


def image_bytes(figure: Any, form: str = "png") -> bytes:
    """Return a figure as the bytes of a PNG or SVG file, the same for the same figure."""
    buffer = io.BytesIO()
    fixed = {"Date": None} if form == "svg" else {"Software": None}
    figure.savefig(buffer, format=form, dpi=160, metadata=fixed)
    return buffer.getvalue()


def _title(results: FitResults) -> str:
    facts = results.facts
    return (
        f"{results.data.name}: the learned graph, {facts.n_nodes:,} nodes, "
        f"{facts.n_edges:,} edges, {facts.mean_degree:.1f} neighbours on average"
    )


def _draw_nodes(axis: Any, results: FitResults) -> None:
    collections = import_module("matplotlib.collections")
    shown = _sample(results.data.n_nodes, MOST_NODES)
    graph = results.adjacency[shown][:, shown]
    places = plane_layout(graph, results.predictions[shown])
    i, j = edges_of(graph)
    kept = _sample(len(i), MOST_EDGES)
    lines = np.stack([places[i[kept]], places[j[kept]]], axis=1)
    faint = float(np.clip(900 / max(len(kept), 1), 0.06, 0.5))
    axis.add_collection(
        collections.LineCollection(lines, colors=INK, linewidths=0.4, alpha=faint, zorder=1)
    )
    size = float(np.clip(22_000 / len(shown), 3, 60))
    predictions = results.predictions[shown]
    for number in results.classes:
        colour, mark = colour_and_mark(int(number))
        at = places[predictions == number]
        style = {"s": size, "color": colour, "marker": mark, "linewidths": 0, "zorder": 2}
        axis.scatter(*at.T, label=_short(results.data.class_names[number]), **style)
    _mark_nodes(axis, results, shown, places, size)
    _legend(axis, results)
    axis.margins(0.03)
    axis.set_axis_off()


def _mark_nodes(
    axis: Any, results: FitResults, shown: np.ndarray, places: np.ndarray, size: float
) -> None:
    """Ring the labelled nodes, and cross out the test nodes that are predicted wrong."""
    labelled = places[np.isin(shown, results.split.train)]
    ring = {"facecolors": "none", "edgecolors": "black", "linewidths": 1.3, "zorder": 4}
    axis.scatter(*labelled.T, s=size * 2.2 + 14, label="labelled", **ring)
    test = results.split.test
    wrong = test[results.predictions[test] != results.data.labels[test]]
    if wrong.size:
        crossed = places[np.isin(shown, wrong)]
        cross = {"marker": "x", "color": "black", "linewidths": 0.8, "zorder": 3}
        axis.scatter(*crossed.T, s=size * 1.1 + 6, label=f"wrong ({wrong.size})", **cross)


def _legend(axis: Any, results: FitResults) -> None:
    handles, names = axis.get_legend_handles_labels()
    n_classes, n_alone = len(results.classes), results.facts.n_isolated
    if n_classes > _MOST_IN_LEGEND:
        cut = n_classes - _MOST_IN_LEGEND
        handles = handles[:_MOST_IN_LEGEND] + handles[n_classes:]
        names = [*names[:_MOST_IN_LEGEND], *names[n_classes:]]
        names[_MOST_IN_LEGEND - 1] += f" (and {cut} more)"
    legend = axis.legend(
        handles,
        names,
        title="predicted class" + (f"; outer ring: {n_alone} without an edge" if n_alone else ""),
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=min(7, len(names)),
        frameon=False,
        fontsize=9,
        title_fontsize=9,
        handletextpad=0.2,
        columnspacing=1.2,
    )
    for handle in legend.legend_handles:
        handle.set_sizes([42])
        handle.set_alpha(1)


def _draw_mixing(axis: Any, results: FitResults) -> None:
    """Show the share of each class's edges that lead to each class."""
    data = results.data
    all_known = bool((data.labels >= 0).all())
    classes = data.labels if all_known else results.predictions
    mixing = class_mixing(results.adjacency, classes, data.n_classes)
    axis.imshow(np.nan_to_num(mixing), cmap="Blues", vmin=0, vmax=1)
    kind = "class" if all_known else "predicted class"
    axis.set_title(f"Where the edges of a {kind} lead", loc="left", fontsize=11, color=INK, pad=12)
    names = [_short(name, 12) for name in data.class_names]
    if data.n_classes <= _MOST_IN_GRID:
        for row, column in np.argwhere(mixing >= 0.005):
            share = mixing[row, column]
            shade = "white" if share > 0.55 else INK
            text = {"ha": "center", "va": "center", "fontsize": 8, "color": shade}
            axis.text(column, row, f"{100 * share:.0f}", **text)
        tilt = 45 if max(map(len, names)) > 3 else 0
        ticks = {"fontsize": 8, "color": INK}
        axis.set_xticks(range(len(names)), names, rotation=tilt, ha="right" if tilt else "center")
        axis.set_yticks(range(len(names)), names, **ticks)
        axis.tick_params(axis="x", labelsize=8, labelcolor=INK)
    axis.tick_params(length=0)
    axis.set_xlabel("share of edges in %, rows sum to 100", fontsize=9, color=INK)
    for spine in axis.spines.values():
        spine.set_visible(False)


def _draw_curves(axis: Any, results: FitResults, names: tuple[str, ...], what: str) -> None:
    """Draw columns of the history, each stage on its own, with a line where it begins."""
    history = results.history
    starts = [k for k, epoch in enumerate(history.column("epoch")) if k == 0 or epoch == 0]
    for name, colour in zip(names, ("#4477AA", "#E8601C")):
        values = np.array([np.nan if v is None else float(v) for v in history.column(name)])
        if np.isnan(values).all():
            continue
        for start, stop in zip(starts, [*starts[1:], len(values)]):
            label = name.replace("_", " ") if start == 0 else None
            axis.plot(range(start, stop), values[start:stop], color=colour, lw=1.2, label=label)
    for start in starts:
        axis.axvline(start, color=PALE, linewidth=0.8, zorder=0)
        at = {"xy": (start, 1), "xycoords": ("data", "axes fraction")}
        axis.annotate(f" {history[start]['stage']}", **at, fontsize=8, color=INK, va="bottom")
    axis.set_xlabel("epoch", color=INK)
    axis.set_ylabel(what, color=INK)
    axis.legend(frameon=False, fontsize=8)
    _plain(axis)


def _plain(axis: Any) -> None:
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    axis.tick_params(which="both", labelsize=8, labelcolor=INK)


def _sample(n: int, most: int) -> np.ndarray:
    """Return all numbers below ``n``, or ``most`` of them drawn without a pattern."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def _short(name: str, limit: int = 18) -> str:
    """Return a name that fits a legend and that matplotlib does not read as mathematics."""
    plain = name.replace("$", r"\$")
    return plain if len(plain) <= limit else plain[: limit - 1] + "…"
