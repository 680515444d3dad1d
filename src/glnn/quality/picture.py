"""A picture of an estimate: are probabilities true, and which classes are mixed up."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from glnn.exceptions import MissingDependencyError
from glnn.quality.metrics import Judged, confusion, reliability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def evaluation_figure(judged: Judged, class_names: Sequence[str]) -> "Figure":
    """Draw the reliability curve beside the confusion matrix.

    Parameters
    ----------
    judged
        Calibrated predictions of hidden labels.
    class_names
        In the order of the classes.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependencyError(
            "a picture needs matplotlib. Install it with pip install 'glnn[report]'."
        ) from None
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_reliability(left, judged)
    draw_confusion(right, judged, class_names)
    return figure


def draw_reliability(axes: "Axes", judged: Judged) -> None:
    """Draw how often predictions of each confidence are right; the diagonal is ideal."""
    curve = reliability(judged)
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    size = 10 + 200 * curve["count"] / curve["count"].sum()
    axes.scatter(curve["confidence"], curve["accuracy"], s=size, color="#3366aa")
    axes.plot(curve["confidence"], curve["accuracy"], color="#3366aa", linewidth=1)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set(xlabel="predicted probability", ylabel="share that is right")
    axes.set_title("On hidden labels")


def draw_confusion(axes: "Axes", judged: Judged, class_names: Sequence[str]) -> None:
    """Draw the share of each true class that is predicted as each class."""
    table = confusion(judged, np.ones((1, len(judged))))[0]
    shares = table / np.maximum(table.sum(1, keepdims=True), 1)
    axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    places = np.arange(len(class_names))
    axes.set_xticks(places, class_names, rotation=90)
    axes.set_yticks(places, class_names)
    axes.set(xlabel="predicted", ylabel="true")
    if len(class_names) <= 12:
        for i, j in np.argwhere(table > 0):
            dark = "white" if shares[i, j] > 0.5 else "black"
            axes.text(j, i, f"{table[i, j]:.0f}", ha="center", va="center", color=dark)
