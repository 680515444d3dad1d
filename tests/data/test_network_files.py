import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data import TableOptions, network_files, read_data, write_data
from glnn.data.network_files import read_network, write_network_graph
from glnn.exceptions import DataFormatError, InputError

SETTINGS = settings(settings.get_profile("records"))
SUFFIXES = pytest.mark.parametrize("suffix", [".graphml", ".gexf"])


@SETTINGS
@given(st.data())
@SUFFIXES
def test_write_then_read_is_the_identity(records, any_text, tmp_path_factory, suffix, data):
    text = any_text.filter(lambda t: not set(t) & set("\r\ufffe\uffff"))
    record = records(data, text=text)
    if not record.n_edges:
        record = record.replace(graph=None)  # these formats know no graph without an edge
    path = tmp_path_factory.mktemp("network") / f"record{suffix}"
    write_data(record, path)
    assert read_data(path).equals(record)


def test_what_networkx_writes_is_read(tmp_path):
    graph = nx.DiGraph()
    graph.add_node("a", age=30, tall=True, home="Rome", label="x")
    graph.add_node("b", age=40, tall=False, home="Bern", label="y")
    graph.add_edge("a", "b", weight=2.5)
    nx.write_graphml(graph, tmp_path / "g.graphml")
    with pytest.raises(DataFormatError, match="column 'home'"):
        read_network(tmp_path / "g.graphml", TableOptions(encode="error"))
    data = read_network(tmp_path / "g.graphml")
    values = dict(zip(data.feature_names, data.features.toarray().T.tolist()))
    assert values == {"age": [30, 40], "tall": [1, 0], "home=Bern": [0, 1], "home=Rome": [1, 0]}
    assert data.class_names == ("x", "y")
    assert data.graph.toarray().tolist() == [[0, 2.5], [2.5, 0]]


@SUFFIXES
@pytest.mark.parametrize(
    "declaration", ['[<!ENTITY a "aaaaaaaaaa">]', 'SYSTEM "file:///etc/hostname"']
)
def test_declarations_and_entities_are_refused(tmp_path, suffix, declaration):
    root = suffix[1:]
    content = f'<?xml version="1.0"?><!DOCTYPE {root} {declaration}><{root}><graph/></{root}>'
    (tmp_path / f"g{suffix}").write_text(content)
    with pytest.raises(DataFormatError, match="DOCTYPE"):
        read_network(tmp_path / f"g{suffix}")


NS = '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'


@pytest.mark.parametrize(
    "body",
    [
        "<html/>",
        f"{NS}</graphml>",
        f"{NS}<graph/></graphml>",
        f"{NS}<graph><node/></graph></graphml>",
        f"{NS}<graph><node id='a'/><node id='a'/></graph></graphml>",
        f"{NS}<graph><node id='a'/><edge source='a' target='b'/></graph></graphml>",
        f"{NS}<graph><node id='a'><graph><node id='b'/></graph></node></graph></graphml>",
        f"{NS}<graph><hyperedge/></graph></graphml>",
        f"{NS}" + "<x>" * 50,
        f"{NS}<graph><node id='a'/>",
        f"{NS}<key id='w' for='edge' attr.name='weight' attr.type='double'/><graph>"
        "<node id='a'/><node id='b'/><edge source='a' target='b'><data key='w'>-1</data></edge>"
        "</graph></graphml>",
        f"{NS}<key id='k' for='node' attr.name='x' attr.type='double'/><graph><node id='a'>"
        "<data key='k'>tall</data></node></graph></graphml>",
    ],
)
def test_what_is_no_flat_graph_is_refused(tmp_path, body):
    (tmp_path / "g.graphml").write_text(body)
    with pytest.raises((DataFormatError, InputError)) as caught:
        read_network(tmp_path / "g.graphml")
    assert "\n" not in str(caught.value)


def test_an_absurd_number_of_declared_values_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(network_files, "MIN_CELL_LIMIT", 100)
    keys = "".join(
        f"<key id='k{k}' for='node' attr.name='k{k}' attr.type='int'><default>1</default></key>"
        for k in range(900)
    )
    nodes = "".join(f"<node id='{k}'/>" for k in range(3000))
    (tmp_path / "g.graphml").write_text(f"{NS}{keys}<graph>{nodes}</graph></graphml>")
    with pytest.raises(DataFormatError, match="sensible size"):
        read_network(tmp_path / "g.graphml")
    one = keys[: keys.index("</key>") + len("</key>")]  # one value a node is no absurd number
    (tmp_path / "g.graphml").write_text(f"{NS}{one}<graph>{nodes}</graph></graphml>")
    assert read_network(tmp_path / "g.graphml").n_nodes == 3000


def test_text_that_xml_cannot_hold_is_refused_and_nothing_is_written(small, tmp_path):
    with pytest.raises(InputError, match="control characters"):
        write_network_graph(tmp_path / "g.graphml", small.graph, ["\x01", *"bcdef"])
    assert list(tmp_path.iterdir()) == []


@SUFFIXES
def test_mutated_files_give_a_record_or_one_clear_line(small, tmp_path, survives_mutation, suffix):
    path = tmp_path / f"small{suffix}"
    write_data(small, path)
    survives_mutation(lambda: read_data(path), [path])
