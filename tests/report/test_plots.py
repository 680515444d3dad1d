import dataclasses
import sys

import numpy as np
import pytest

from glnn.exceptions import MissingDependencyError
from glnn.report import plots
from glnn.report.facts import GraphFacts

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("draw", [plots.graph_figure, plots.curves_figure, plots.degrees_figure])
def test_every_figure_is_a_png_with_the_same_bytes_each_time(results, draw):
    image = plots.image_bytes(draw(results))
    assert image.startswith(PNG)
    assert image == plots.image_bytes(draw(results))


def test_a_figure_can_be_svg(results):
    assert plots.image_bytes(plots.curves_figure(results), "svg").lstrip().startswith(b"<?xml")


def test_the_picture_shows_every_node_edge_label_and_mistake(results):
    axis = plots.graph_figure(results).axes[0]
    shown = {c.get_label(): len(c.get_offsets()) for c in axis.collections[1:]}
    n_wrong = int((results.predictions != results.data.labels)[results.split.test].sum())
    assert len(axis.collections[0].get_segments()) == results.facts.n_edges
    assert (
        sum(n for name, n in shown.items() if "labelled" not in name and "wrong" not in name) == 20
    )
    assert shown["labelled"] == results.split.train.size
    assert shown.get(f"wrong ({n_wrong})", 0) == n_wrong


def test_many_edges_and_nodes_are_sampled(results, monkeypatch):
    monkeypatch.setattr(plots, "MOST_EDGES", 7)
    monkeypatch.setattr(plots, "MOST_NODES", 15)
    axis = plots.graph_figure(results).axes[0]
    assert len(axis.collections[0].get_segments()) == 7
    shown = [c for c in axis.collections[1:] if c.get_label() != "labelled"]
    assert sum(len(c.get_offsets()) for c in shown if "wrong" not in c.get_label()) == 15


def test_the_side_panel_has_the_share_of_every_pair_of_classes(results):
    axis = plots.graph_figure(results).axes[1]
    assert sorted(text.get_text() for text in axis.texts) == ["1", "1", "99", "99"]
    assert "class" in axis.get_title(loc="left")


def test_with_unknown_labels_the_side_panel_speaks_of_predictions(results):
    labels = results.data.labels.copy()
    labels[0] = -1
    partly = dataclasses.replace(
        results,
        data=results.data.replace(labels=labels),
        split=dataclasses.replace(results.split, test=results.split.val),
    )
    assert "predicted" in plots.graph_figure(partly).axes[1].get_title(loc="left")


def test_more_classes_than_colours_still_have_a_short_legend(results):
    n = 40
    data = dataclasses.replace(
        results.data, class_names=tuple(f"class {k}" for k in range(n)), splits={}
    )
    probabilities = np.tile(np.eye(n)[:20] + 0.01, 1)
    many = dataclasses.replace(
        results, data=data, classes=np.arange(n), probabilities=probabilities
    )
    many = dataclasses.replace(
        many, facts=GraphFacts.of(many.adjacency, data.labels, many.predictions)
    )
    figure = plots.graph_figure(many)
    names = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert len(names) <= 18
    assert any("24 more" in name for name in names)
    assert plots.image_bytes(figure).startswith(PNG)


def test_curves_have_validation_where_it_was_recorded(results):
    for record in results.history:
        record |= {"validation_loss": 1.0, "validation_accuracy": 0.5}
    assert len(plots.curves_figure(results).axes) == 2


def test_each_stage_is_a_line_of_its_own(results):
    axis = plots.curves_figure(results).axes[0]
    assert [text.get_text().strip() for text in axis.texts] == ["classifier 1", "classifier 2"]
    lengths = [len(line.get_xdata()) for line in axis.lines]
    assert lengths.count(3) == 2


def test_without_matplotlib_the_extra_is_named(results, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"glnn\[report\]"):
        plots.graph_figure(results)
