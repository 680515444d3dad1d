import numpy as np
import pytest

from glnn import NodeData, learn_graph
from glnn._display import Shown


class Box(Shown):
    def _facts(self):
        return {"name": "<box>", "sides": "6"}


def test_a_line_has_the_title_and_the_facts():
    assert repr(Box()) == "Box(<box>: 6 sides)"


def test_a_table_is_escaped():
    assert Box()._repr_html_() == (
        "<table><tr><th>name</th><td>&lt;box&gt;</td></tr><tr><th>sides</th><td>6</td></tr></table>"
    )


@pytest.fixture
def data():
    x = np.random.default_rng(0).normal(size=(30, 4))
    return NodeData.from_arrays(x, np.arange(30) % 3, edges=[[0, 1], [1, 2]], name="thirty")


def test_records_fit_on_a_line(data):
    expected = "NodeData(thirty: 30 nodes, 4 features, 3 classes, 30 labels, 2 edges)"
    assert str(data) == repr(data) == expected
    learned = learn_graph(data.features, n_neighbors=5)
    assert repr(learned).startswith("LearnedGraph(trace reading: 30 nodes, ")
    assert len(repr(learned)) < 200
    assert "<table>" in learned._repr_html_()


def test_every_row_of_a_table_is_a_name_and_its_value(data):
    learned = learn_graph(data.features, n_neighbors=5)
    proven = f"optimal (relative gap {learned.certificate.relative_gap:.0e})"
    assert f"<tr><th>graph problem</th><td>{proven}</td></tr>" in learned._repr_html_()
    assert repr(learned).endswith(f"edges, graph problem {proven})")
    without = data.replace(graph=None)
    assert "<tr><th>edges</th><td>none</td></tr>" in without._repr_html_()
    assert repr(without).endswith("30 labels, no edges)")
