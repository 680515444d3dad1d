import networkx as nx
import pytest

from glnn.data.xml_out import write_gexf, write_graphml, write_node_graphml
from glnn.exceptions import InputError


@pytest.mark.parametrize(
    ("write", "read"), [(write_graphml, nx.read_graphml), (write_gexf, nx.read_gexf)]
)
def test_networkx_reads_the_graph_with_ids_and_weights(small, tmp_path, write, read):
    path = tmp_path / "graph.xml"
    write(path, small.graph * 2, small.ids)
    network = read(path)
    assert list(network) == small.ids.tolist()
    assert network.number_of_edges() == small.n_edges
    assert network.edges["n0", "n1"]["weight"] == 2.0


def test_gexf_takes_captions(small, tmp_path):
    write_gexf(tmp_path / "g.gexf", small.graph, small.ids, {0: 'the "first" <one>'})
    network = nx.read_gexf(tmp_path / "g.gexf")
    assert network.nodes["n0"]["label"] == 'the "first" <one>'


def test_text_that_xml_cannot_hold_is_refused_and_nothing_is_written(small, tmp_path):
    with pytest.raises(InputError, match="control characters"):
        write_graphml(tmp_path / "g.graphml", small.graph, ["\x01", *"bcdef"])
    assert list(tmp_path.iterdir()) == []


def test_a_feature_named_as_a_special_attribute_is_refused(small, tmp_path):
    with pytest.raises(InputError, match="'label'"):
        write_node_graphml(small.replace(feature_names=("label", "x")), tmp_path / "g.graphml")
