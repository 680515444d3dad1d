import networkx as nx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glnn.data import graphml, read_data, write_data
from glnn.data.graphml import read_graphml
from glnn.exceptions import DataFormatError, InputError

SETTINGS = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@SETTINGS
@given(st.data())
def test_write_then_read_is_the_identity(records, any_text, tmp_path_factory, data):
    text = any_text.filter(lambda t: "\ufffe" not in t and "\uffff" not in t)
    record = records(data, text=text)
    path = tmp_path_factory.mktemp("graphml") / "record.graphml"
    write_data(record, path)
    assert read_data(path).equals(record)


def test_what_networkx_writes_is_read(tmp_path):
    graph = nx.DiGraph()
    graph.add_node("a", age=30, tall=True, label="x")
    graph.add_node("b", age=40, tall=False, label="y")
    graph.add_edge("a", "b", weight=2.5)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    with pytest.raises(DataFormatError, match="column 'tall'"):
        read_graphml(tmp_path / "g.graphml")
    data = read_graphml(tmp_path / "g.graphml", encode="onehot")
    values = dict(zip(data.feature_names, data.features.toarray().T.tolist()))
    assert values == {"age": [30, 40], "tall=False": [0, 1], "tall=True": [1, 0]}
    assert data.class_names == ("x", "y")
    assert data.graph.toarray().tolist() == [[0, 2.5], [2.5, 0]]


def test_a_graph_without_attributes_gets_the_identity(tmp_path):
    nx.write_graphml(nx.path_graph(3), tmp_path / "g.graphml")
    data = read_graphml(tmp_path / "g.graphml")
    assert np.array_equal(data.features.toarray(), np.eye(3))
    assert data.ids.tolist() == [0, 1, 2]
    assert data.n_edges == 2


BOMB = """<?xml version="1.0"?>
<!DOCTYPE lolz [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>
<graphml><graph><node id="&b;"/></graph></graphml>"""
EXTERNAL = """<?xml version="1.0"?>
<!DOCTYPE g SYSTEM "file:///etc/hostname"><graphml><graph><node id="a"/></graph></graphml>"""


@pytest.mark.parametrize("content", [BOMB, EXTERNAL])
def test_declarations_and_entities_are_refused(tmp_path, content):
    (tmp_path / "g.graphml").write_text(content)
    with pytest.raises(DataFormatError, match="DOCTYPE"):
        read_graphml(tmp_path / "g.graphml")


@pytest.mark.parametrize(
    "body",
    [
        "<html/>",
        "<graphml/>",
        "<graphml><graph/></graphml>",
        "<graphml><graph><node/></graph></graphml>",
        "<graphml><graph><node id='a'/><node id='a'/></graph></graphml>",
        "<graphml><graph><node id='a'/><edge source='a' target='b'/></graph></graphml>",
        "<graphml><graph><node id='a'><graph><node id='b'/></graph></node></graph></graphml>",
        "<graphml><graph><hyperedge/></graph></graphml>",
        "<graphml>" + "<x>" * 50,
        "<graphml><graph><node id='a'/>",
        "<graphml><key id='w' for='edge' attr.name='weight'/><graph><node id='a'/><node id='b'/>"
        "<edge source='a' target='b'><data key='w'>-1</data></edge></graph></graphml>",
        "<graphml><key id='k' for='node' attr.name='x'/><graph><node id='a'/></graph></graphml>",
    ],
)
def test_what_is_no_flat_graph_is_refused(tmp_path, body):
    (tmp_path / "g.graphml").write_text(body)
    with pytest.raises((DataFormatError, InputError)) as caught:
        read_graphml(tmp_path / "g.graphml")
    assert "\n" not in str(caught.value)


def test_an_absurd_number_of_declared_values_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(graphml, "SMALL_TABLE", 100)
    keys = "".join(f"<key id='k{k}' for='node'><default>1</default></key>" for k in range(900))
    nodes = "".join(f"<node id='{k}'/>" for k in range(3000))
    (tmp_path / "g.graphml").write_text(f"<graphml>{keys}<graph>{nodes}</graph></graphml>")
    with pytest.raises(DataFormatError, match="sensible size"):
        read_graphml(tmp_path / "g.graphml")


def test_mutated_files_give_a_record_or_one_clear_line(small, tmp_path, survives_mutation):
    path = tmp_path / "small.graphml"
    write_data(small, path)
    survives_mutation(lambda: read_data(path), [path])
