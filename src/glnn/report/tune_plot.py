"""A picture of a search: what each trial reached, and how that goes with each parameter."""

from importlib import import_module
from typing import Any

from glnn.report.page.data import Search
from glnn.report.palette import COLOURS, INK, PALE
from glnn.report.plots import blank_figure


def tuning_figure(search: Search) -> Any:
    """Draw the goal by trial with the best so far, and against every parameter that was searched.

    Parameters
    ----------
    search
        What the search has found.
    """
    n_panels = 1 + len(search.params)
    n_lines, n_columns = -(-n_panels // 4), min(n_panels, 4)
    figure = blank_figure(3.0 * n_columns, 3.0 * n_lines)
    axes = [
        figure.add_subplot(n_lines, n_columns, 1 + k, sharey=figure.axes[0] if k else None)
        for k in range(n_panels)
    ]
    places = range(1, len(search.values) + 1)
    best = search.best_so_far()
    axes[0].step(places, best, where="post", color=COLOURS[1], label="best so far")
    axes[0].plot(places, search.values, "o", color=COLOURS[0], markersize=4, label="a trial")
    axes[0].axhline(search.values[0], color=PALE, linestyle="--", label="the preset as it is")
    axes[0].set_xlabel("trial", color=INK)
    axes[0].set_ylabel(f"{search.goal.replace('_', ' ')} on hidden labels", color=INK)
    axes[0].legend(fontsize=8)
    for axis, name in zip(axes[1:], search.params):
        drawn = search.drawn(name)
        axis.plot([part for part, _ in drawn], [value for _, value in drawn], "o", color=COLOURS[0])
        if name in search.log:
            _log_scale(axis, [part for part, _ in drawn])
        axis.set_xlabel(name, color=INK)
    return figure


def _log_scale(axis: Any, values: list[float | int]) -> None:
    axis.set_xscale("log")
    ticker = import_module("matplotlib.ticker")
    is_wide = max(values) > 30 * min(values)
    axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1.0,) if is_wide else (1.0, 3.0)))
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())
