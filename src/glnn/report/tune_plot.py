"""A picture of a search: what each trial reached, and how that goes with each parameter."""

from importlib import import_module
from typing import Any

import numpy as np

from glnn.report.palette import COLOURS, INK, PALE
from glnn.report.plots import blank_figure
from glnn.tuning import SPACE, Trials


def tuning_figure(trials: Trials, goal: str) -> Any:
    """Draw the goal by trial with the best so far, and against every parameter that was searched.

    Parameters
    ----------
    trials
        What the search has found.
    goal
        The name of the goal, a column of the trials' table.
    """
    names = [name for name in trials.table[-1] if name not in ("trial", goal)]
    n_panels = 1 + len(names)
    n_lines, n_columns = -(-n_panels // 4), min(n_panels, 4)
    figure = blank_figure(3.0 * n_columns, 3.0 * n_lines)
    axes = [
        figure.add_subplot(n_lines, n_columns, 1 + k, sharey=figure.axes[0] if k else None)
        for k in range(n_panels)
    ]
    values = [row[goal] for row in trials.table]
    best = np.minimum.accumulate if goal == "log_loss" else np.maximum.accumulate
    places = range(1, len(values) + 1)
    axes[0].step(places, best(values), where="post", color=COLOURS[1], label="best so far")
    axes[0].plot(places, values, "o", color=COLOURS[0], markersize=4, label="a trial")
    axes[0].axhline(values[0], color=PALE, linestyle="--", label="the preset as it is")
    axes[0].set_xlabel("trial", color=INK)
    axes[0].set_ylabel(f"{goal.replace('_', ' ')} on hidden labels", color=INK)
    axes[0].legend(fontsize=8)
    for axis, name in zip(axes[1:], names):
        drawn = [row for row in trials.table if name in row]
        axis.plot([row[name] for row in drawn], [row[goal] for row in drawn], "o", color=COLOURS[0])
        if name in SPACE and SPACE[name].log:
            axis.set_xscale("log")
            ticker = import_module("matplotlib.ticker")
            is_wide = SPACE[name].high > 100 * SPACE[name].low
            subs = (1.0,) if is_wide else (1.0, 3.0)
            axis.xaxis.set_major_locator(ticker.LogLocator(subs=subs))
            axis.xaxis.set_major_formatter("{x:g}")
            axis.xaxis.set_minor_formatter(ticker.NullFormatter())
        axis.set_xlabel(name, color=INK)
    return figure
