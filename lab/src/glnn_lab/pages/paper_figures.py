"""Figures of reproduced numbers as SVG; equal numbers give equal bytes."""

import io
import textwrap
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Literal

import numpy as np

from glnn.report.plots import COLOURS, INK, blank_figure
from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.datasets import dataset_title
from glnn_lab.experiments.methods import METHODS
from glnn_lab.experiments.records import REFERENCE, BlockResults

_PAPER = "paper"
PALE = "#B8BDC6"
_SETTINGS = {"svg.hashsalt": "glnn", "svg.fonttype": "none", "font.size": 9}


def block_figure(results: BlockResults) -> str | None:
    """Return the figure of a block as SVG, or ``None`` if there is nothing to draw."""
    draw = {"axis": axis_figure, "graphs": graphs_figure, "methods": methods_figure}
    if results.block.is_ablation or not results.all_records():
        return None
    with import_module("matplotlib").rc_context(_SETTINGS):
        figure = draw[results.block.view](results)
        return None if figure is None else _svg(figure)


def methods_figure(results: BlockResults) -> Any:
    """Draw mean and deviation of each method, and the paper's number as a hollow marker."""
    methods, datasets = results.methods, results.datasets
    figure = blank_figure(2.4 + 2.0 * len(datasets), 1.8 + 0.26 * len(methods))
    axes = figure.subplots(1, len(datasets), sharey=True, squeeze=False)[0]
    for axis, dataset in zip(axes, datasets):
        for k, method in enumerate(methods):
            _draw_mean(axis, results, method, dataset, k)
        axis.set_title(dataset_title(dataset), fontsize=10, color=INK)
        axis.set_xlabel("accuracy in %", color=INK)
        axis.grid(axis="x", color=PALE, linewidth=0.5)
        _plain(axis)
    axes[0].set_yticks(range(len(methods)), [METHODS[m].title for m in methods])
    axes[0].invert_yaxis()
    _equal_scales(axes, "x")
    _captions(figure, axes, results)
    return figure


def axis_figure(results: BlockResults) -> Any:
    """Draw a curve per method along the axis, with the 95 % interval of the mean as a band."""
    axis_of, datasets = results.block.axis, results.datasets
    assert axis_of is not None
    n_lines = -(-(len(results.methods) + 1) // _columns(results))
    figure = blank_figure(1.4 + 2.9 * len(datasets), 3.4 + 0.2 * n_lines)
    axes = figure.subplots(1, len(datasets), squeeze=False)[0]
    for axis, dataset in zip(axes, datasets):
        for method in results.methods:
            _draw_curve(axis, results, method, dataset)
        axis.set_title(dataset_title(dataset), fontsize=10, color=INK)
        axis.set_xticks(
            range(len(results.values)), [f"{v:g}" for v in results.values if v is not None]
        )
        axis.set_xlabel(axis_of.label, color=INK)
        axis.grid(axis="y", color=PALE, linewidth=0.5)
        _plain(axis)
    axes[0].set_ylabel("accuracy in %", color=INK)
    _equal_scales(axes, "y")
    _captions(figure, axes, results)
    return figure


def graphs_figure(results: BlockResults) -> Any:
    """Draw the weights between 30 nodes, in the given and in each learned graph."""
    rows = [
        (
            dataset,
            next((r["snapshots"] for r in results.records(m, dataset) if _is_shown(r)), None),
        )
        for dataset in results.datasets
        for m in results.methods
    ]
    drawn = [(dataset, steps) for dataset, steps in rows if steps and "picture" in steps[0]]
    if not drawn:
        return None
    width = max(len(steps) for _, steps in drawn)
    figure = blank_figure(2.1 * width, 2.7 * len(drawn))
    axes = figure.subplots(len(drawn), width, squeeze=False)
    for line, (dataset, steps) in zip(axes, drawn):
        for axis in line[len(steps) :]:
            axis.set_visible(False)
        top = max(_heaviest(step) for step in steps)
        for axis, step in zip(line, steps):
            _draw_matrix(axis, step, given=steps[0], title=dataset_title(dataset), top=top)
    _captions(figure, axes[0], results)
    return figure


def _draw_mean(axis: Any, results: BlockResults, method: str, dataset: str, at: int) -> None:
    summary, paper = results.summary(method, dataset), results.published_value(method, dataset)
    colour = COLOURS[1] if METHODS[method].name.startswith(REFERENCE) else COLOURS[0]
    if summary is not None:
        error = None if np.isnan(summary.sd) else summary.sd
        axis.errorbar(summary.mean, at, xerr=error, fmt="o", color=colour, markersize=4, capsize=2)
    if paper is not None:
        _draw_paper(axis, paper, at, colour)


def _draw_curve(axis: Any, results: BlockResults, method: str, dataset: str) -> None:
    number = results.methods.index(method)
    colour = COLOURS[(number + 1) % len(COLOURS)]
    found = [(k, results.summary(method, dataset, v)) for k, v in enumerate(results.values)]
    known = [(k, summary) for k, summary in found if summary is not None]
    if not known:
        return
    places, means = [k for k, _ in known], [s.mean for _, s in known]
    axis.plot(places, means, marker="o", markersize=3.5, color=colour, label=METHODS[method].title)
    low, high = ([getattr(s, side) for _, s in known] for side in ("low", "high"))
    if not np.isnan(low).any():
        axis.fill_between(places, low, high, color=colour, alpha=0.18, linewidth=0)
    papers = [
        (k, results.published_value(method, dataset, v)) for k, v in enumerate(results.values)
    ]
    for place, paper in papers:
        if paper is not None:
            _draw_paper(axis, place, paper, colour)


def _draw_paper(axis: Any, x: float | int, y: float | int, colour: str) -> None:
    axis.plot(x, y, marker="D", markersize=5, color=colour, fillstyle="none", gid=_PAPER)


def _equal_scales(axes: Any, which: Literal["x", "y"]) -> None:
    """Give all axes the same span, each around its own middle."""
    limits = [getattr(axis, f"get_{which}lim")() for axis in axes]
    span = max(high - low for low, high in limits)
    for axis, (low, high) in zip(axes, limits):
        middle = (low + high) / 2
        getattr(axis, f"set_{which}lim")(middle - span / 2, middle + span / 2)


def _columns(results: BlockResults) -> int:
    """Return the number of legend columns that fit below the figure of a block."""
    return max(1, round(1.2 * len(results.datasets)))


def _captions(figure: Any, axes: Any, results: BlockResults) -> None:
    """Add the title and the legend."""
    title = results.block.title.removesuffix(", the paper's number in brackets")
    n_letters = round(11 * figure.get_figwidth())
    figure.suptitle(textwrap.fill(title, n_letters), fontsize=11, color=INK)
    lines, names = axes[0].get_legend_handles_labels()
    drawn = [line for axis in axes for line in axis.get_lines() if line.get_gid() == _PAPER]
    if drawn:
        style = {"marker": "D", "markersize": 5, "fillstyle": "none", "linestyle": "none"}
        mark = import_module("matplotlib.lines").Line2D([], [], color=INK, **style)
        lines, names = [*lines, mark], [*names, "printed in the paper"]
    if lines:
        at = {"loc": "outside lower center", "ncols": _columns(results)}
        figure.legend(lines, names, frameon=False, fontsize=8, **at)


def _heaviest(step: Mapping[str, Any]) -> float:
    """Return the largest weight between two nodes, without loops."""
    picture = np.array(step["picture"])
    return max(float(picture[~np.eye(len(picture), dtype=bool)].max()), 1e-9)


def _draw_matrix(
    axis: Any, step: Mapping[str, Any], *, given: Mapping[str, Any], title: str, top: float
) -> None:
    picture, old = np.array(step["picture"]), np.array(given["picture"])
    axis.imshow(picture, cmap="Greys", vmin=0, vmax=top, interpolation="nearest")
    rows, columns = np.nonzero((picture > 0.01) & (old == 0))
    if 0 < rows.size < picture.size // 4:  # mark new edges if they are few
        axis.plot(columns, rows, ".", color=COLOURS[1], markersize=2.5)
    name = "given" if step["step"] == "given" else f"{step['step']} {step['number']}"
    axis.set_title(f"{title}: {name}", fontsize=9, color=INK)
    words = f"distance {step['distance']:.3f}\nsparsity {step['sparsity']:.4f}"
    axis.set_xlabel(words, fontsize=8, color=INK)
    axis.set_xticks([])
    axis.set_yticks([])


def _plain(axis: Any) -> None:
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)


def _svg(figure: Any) -> str:
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": "glnn"})
    return "\n".join(line.rstrip() for line in buffer.getvalue().splitlines()) + "\n"


def _is_shown(record: Mapping[str, Any]) -> bool:
    return bool(record["seed"] == FIRST_SEED)
