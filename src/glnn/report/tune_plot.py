"""A picture of a search: what each trial reached, and how that goes with each parameter."""

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
    figure = blank_figure(3.0 * (1 + len(names)), 3.2)
    axes = np.atleast_1d(figure.subplots(1, 1 + len(names), sharey=True))
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
        axis.set_xlabel(name, color=INK)
    return figure
