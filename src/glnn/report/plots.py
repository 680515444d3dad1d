"""Draw results as matplotlib figures, without showing or saving them."""

import dataclasses
import io
import itertools
from typing import Any

import numpy as np
from jaxtyping import Float

from glnn._utils import import_optional
from glnn.data.files import one_line
from glnn.report.page.subset import select_subset
from glnn.report.results import Results
from glnn.report.text import verdict_line

# Colours that can be distinguished with any colour vision
COLOURS = (
    "#332288",
    "#E8601C",
    "#117733",
    "#88CCEE",
    "#AA4499",
    "#DDAA33",
    "#882255",
    "#44AA99",
    "#999999",
    "#4477AA",
)
MARKS = ("o", "s", "^", "D", "v", "P")
INK = "#22252B"


# The learned graph

MOST_EDGES = 20_000
MOST_NODES = 20_000
_MOST_IN_LEGEND = 16


def blank_figure(width: float, height: float) -> Any:
    """Return an empty figure."""
    matplotlib = import_optional("matplotlib.figure")
    return matplotlib.Figure(figsize=(width, height), layout="constrained", facecolor="white")


def graph_figure(results: Results, places: Float[np.ndarray, "n 2"] | None = None) -> Any:
    """Draw the learned graph, coloured by predicted class, with the legend below it.

    ``places`` are the positions of the nodes; by default they are computed.
    """
    figure, facts = blank_figure(9.0, 9.0), results.graph_facts
    axis = figure.subplots()
    title = (  # with the verdict: even noise may look like separate groups
        f"{results.name}: the learned graph, {facts.n_nodes:,} nodes, "
        f"{facts.n_edges:,} edges, {facts.mean_degree:.1f} neighbours on average\n"
        f"{verdict_line(results)}"
    )
    figure.suptitle(title, fontsize=12, color=INK, weight="bold", wrap=True)
    _draw_nodes(axis, results, places)
    _draw_legend(figure, axis, results)
    return figure


def image_bytes(figure: Any) -> bytes:
    """Return a figure as the bytes of a PNG file; equal figures give equal bytes."""
    buffer = io.BytesIO()
    figure.savefig(
        buffer,
        format="png",
        dpi=160,
        metadata={"Software": None},
        # levels above 2 take twice as long and do not make these pictures smaller
        pil_kwargs={"compress_level": 2},
    )
    return buffer.getvalue()


def _draw_nodes(axis: Any, results: Results, given_places: Float[np.ndarray, "n 2"] | None) -> None:
    collections = import_optional("matplotlib.collections")
    learned = dataclasses.replace(results, given=None)
    shown = select_subset(learned, given_places, MOST_NODES, MOST_EDGES)
    places, links = shown.places, shown.links
    lines = np.stack([places[links.source], places[links.target]], axis=1)
    faint = float(np.clip(900 / max(len(links), 1), 0.06, 0.5))
    axis.add_collection(
        collections.LineCollection(lines, colors=INK, linewidths=0.4, alpha=faint, zorder=1)
    )
    size = float(np.clip(22_000 / len(places), 3, 60))
    looks = itertools.cycle(itertools.product(MARKS, COLOURS))
    for number, (name, (mark, colour)) in enumerate(zip(results.class_names, looks)):
        at = places[results.predictions[shown.chosen] == number]
        axis.scatter(
            *at.T,
            s=size,
            color=colour,
            marker=mark,
            linewidths=0,
            zorder=2,
            label=one_line(name, limit=18).replace("$", r"\$"),  # $ begins mathematics
        )
    _mark_nodes(axis, results, shown.chosen, places, size)
    axis.margins(0.03)
    axis.set_aspect("equal")
    axis.set_axis_off()


def _mark_nodes(
    axis: Any, results: Results, shown: np.ndarray, places: np.ndarray, size: float
) -> None:
    """Circle the labelled nodes, and cross out the test nodes that are predicted wrong."""
    labelled = places[np.isin(shown, results.split.train)]
    axis.scatter(
        *labelled.T,
        s=size * 2.2 + 14,
        facecolors="none",
        edgecolors="black",
        linewidths=1.3,
        zorder=4,
        label="labelled",
    )
    test = results.split.test
    wrong = test[results.predictions[test] != results.labels[test]]
    if wrong.size:
        crossed = places[np.isin(shown, wrong)]
        axis.scatter(
            *crossed.T,
            s=size * 1.1 + 6,
            marker="x",
            color="black",
            linewidths=0.8,
            zorder=3,
            label=f"wrong ({wrong.size})",
        )


def _draw_legend(figure: Any, axis: Any, results: Results) -> None:
    handles, names = axis.get_legend_handles_labels()
    n_alone, n_more = results.graph_facts.n_isolated, len(results.class_names) - _MOST_IN_LEGEND
    if n_more > 0:
        names[_MOST_IN_LEGEND - 1] += f" (and {n_more} more)"
        left_out = slice(_MOST_IN_LEGEND, len(results.class_names))
        del handles[left_out], names[left_out]
    widest = max(map(len, names))
    legend = figure.legend(
        handles,
        names,
        title="predicted class" + (f"; outer ring: {n_alone} without an edge" if n_alone else ""),
        loc="outside lower center",
        ncols=max(1, min(len(names), 84 // (widest + 5))),
        frameon=False,
        fontsize=9,
        title_fontsize=9,
        handletextpad=0.2,
        columnspacing=1.2,
    )
    for handle in legend.legend_handles:
        handle.set_sizes([42])
        handle.set_alpha(1)
