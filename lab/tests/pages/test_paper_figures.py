import xml.etree.ElementTree as ElementTree

import pytest

from glnn_lab.experiments.cells import FIRST_SEED
from glnn_lab.experiments.records import join_results
from glnn_lab.experiments.targets import get_target, list_cells
from glnn_lab.pages.paper_figures import axis_figure, block_figure, methods_figure


def fake(cell):
    record = {"id": cell.id, **cell.to_dict(), "accuracy": 0.5 + 0.01 * (cell.seed - FIRST_SEED)}
    if cell.probe == "adjacency":
        step = {"step": "given", "number": 0, "distance": 0.0, "sparsity": 0.5}
        step["picture"] = [[0.0, 1.0], [1.0, 0.0]]
        learned = {**step, "step": "round", "number": 1, "picture": [[0.0, 1.0], [1.0, 0.2]]}
        record["snapshots"] = [step, learned] if cell.dataset == "cora" else [step]
    return record


def figures(target, *choice):
    chosen = get_target(target).choose(*choice)
    return [block_figure(b) for b in join_results(chosen, [fake(c) for c in list_cells(chosen)])]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("table1", ("Cora", "GLNN, default", "accuracy in %")),
        ("table2", ("Cora", "λ0")),
        ("robustness", ("Cora", "share of labelled nodes", "GCN")),
        ("adjacency", ("Cora: given", "distance 0.000")),
        ("accuracy", ("Cora", "kNN-GCN")),
    ],
)
def test_every_target_is_drawn_as_whole_svg_the_same_each_time(target, words):
    choice = (2, ["cora", "terrorattack"], None if target != "table1" else ["glnn", "gcn"])
    first, again = figures(target, *choice)[0], figures(target, *choice)[0]
    assert first == again
    assert ElementTree.fromstring(first).tag.endswith("svg")
    for word in words:
        assert word in first


def test_legends_and_titles_lie_inside_the_picture():
    chosen = get_target("accuracy").choose(2, ["cora"], None)
    drawn = join_results(chosen, [fake(c) for c in list_cells(chosen)])
    (block,) = [b for b in drawn if b.block.name == "rewired"]
    figure = axis_figure(block)
    figure.draw_without_rendering()
    (legend,), (title,) = figure.legends, figure.texts
    assert len(legend.get_texts()) == len(block.methods)
    for part in (legend, title):
        box = part.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= figure.bbox.width
        assert box.y0 >= 0 and box.y1 <= figure.bbox.height


def test_diamonds_are_explained_where_there_are_any():
    with_paper = figures("table1", 2, ["cora"], ["gcn"])[0]
    assert "printed in the paper" in with_paper and "in brackets" not in with_paper
    assert "printed in the paper" not in figures("accuracy", 2, ["cora"], ["gcn"])[0]


def test_a_point_of_accuracy_is_as_long_in_every_panel():
    chosen = get_target("table1").choose(2, ["cora", "citeseer"], ["gcn", "mlp"])
    records = [fake(c) for c in list_cells(chosen)]
    for record in records:
        record["accuracy"] *= 0.5 if record["dataset"] == "citeseer" else 1.0
    figure = methods_figure(join_results(chosen, records)[0])
    spans = [high - low for low, high in (axis.get_xlim() for axis in figure.axes)]
    assert spans[0] == pytest.approx(spans[1])


def test_one_seed_has_no_band_and_no_error():
    assert "<svg" in figures("robustness", 1, ["cora"], ["gcn"])[0]


def test_nothing_finished_is_nothing_drawn():
    chosen = get_target("table1").choose(1, ["cora"], ["gcn"])
    assert block_figure(join_results(chosen, [])[0]) is None


def test_graphs_without_a_picture_are_not_drawn():
    chosen = get_target("adjacency").choose(1, ["cora"], ["glnn-default"])
    records = [fake(c) for c in list_cells(chosen)]
    for record in records:
        for step in record["snapshots"]:
            del step["picture"]
    assert block_figure(join_results(chosen, records)[0]) is None
