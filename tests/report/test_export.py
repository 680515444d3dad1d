import dataclasses
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xmlschema

from glnn.data import Split
from glnn.exceptions import InputError
from glnn.report.export import FORMATS, build_network, edge_frame, export_graph, node_frame
from glnn.report.results import Results


def made(ids, names, learned, given, labels, probabilities, train):
    none = np.empty(0, np.int64)
    split = Split(np.array(train), none, none, name="mine")
    half = sp.csr_matrix(learned)
    both = None if given is None else sp.csr_matrix(given + given.T)
    graph = sp.csr_matrix(half + half.T)
    return Results("trees", np.array(ids), names, labels, split, probabilities, graph, both)


def small_page(ids=("a", "b", "=c"), names=("ash", "-oak"), **changes):
    """Three nodes; a-b was given and kept, a-c given and dropped, b-c learned."""
    learned, given = np.zeros((3, 3)), np.zeros((3, 3))
    learned[0, 1], learned[1, 2] = 0.5, 0.25
    given[0, 1], given[0, 2] = 1.0, 1.0
    said = np.array([[0.75, 0.25], [0.375, 0.625], [0.125, 0.875]])
    page = made(ids, names, learned, given, np.array([0, 0, -1]), said, [0])
    return dataclasses.replace(page, **changes)


def read_network(path):
    return nx.read_graphml(path) if path.suffix == ".graphml" else nx.read_gexf(path)


@pytest.mark.parametrize("to", ["graphml", "gexf"])
def test_other_programs_read_the_graph_that_networkx_has(to, tmp_path):
    page = small_page()
    (path,) = export_graph(page, tmp_path / "new", to)
    found, expected = read_network(path), build_network(page)
    for attribute in ("class", "probability", "given_label"):
        assert dict(found.nodes(data=attribute)) == dict(expected.nodes(data=attribute))
    for attribute in ("weight", "origin"):
        ends = {frozenset(ends): value for *ends, value in found.edges(data=attribute)}
        assert ends == {frozenset((u, v)): w for u, v, w in expected.edges(data=attribute)}


def test_edges_say_where_they_come_from_and_dropped_ones_are_gone():
    network = build_network(small_page())
    edges = {(u, v): (w["weight"], w["origin"]) for u, v, w in network.edges(data=True)}
    assert edges == {("a", "b"): (0.5, "given"), ("b", "=c"): (0.25, "learned")}


def test_given_edges_say_how_much_of_them_was_kept(tmp_path):
    page = small_page(trust=small_page().given * 0.4)
    edges = {(u, v): w.get("trust") for u, v, w in build_network(page).edges(data=True)}
    assert edges == {("a", "b"): 0.4, ("b", "=c"): None}
    for to in FORMATS:
        export_graph(page, tmp_path / to, to)
    table = pd.read_csv(tmp_path / "csv" / "edges.csv")
    assert table["trust"].fillna(-1).tolist() == [0.4, -1]
    assert "trust" not in edge_frame(small_page())


def test_a_label_that_was_hidden_from_the_fit_is_not_given():
    frame = node_frame(small_page())
    assert frame["given_label"].tolist() == ["ash", "", ""]
    assert frame["class"].tolist() == ["ash", "-oak", "-oak"]
    assert frame["probability"].tolist() == [0.75, 0.625, 0.875]


def schema(to):
    return xmlschema.XMLSchema(Path(__file__).with_name("schemas") / f"{to}.xsd")


@pytest.mark.parametrize("to", ["graphml", "gexf"])
@pytest.mark.parametrize("has_trust", [True, False])
def test_an_exported_graph_follows_its_schema(to, has_trust, tmp_path):
    page = small_page(("ann lee", "b & c", "<=>"), ("ash", 'o"ak'))
    if has_trust:
        page = dataclasses.replace(page, trust=page.given * 0.4)
    (path,) = export_graph(page, tmp_path, to)
    schema(to).validate(path)


def test_no_cell_of_a_csv_is_a_formula_and_parquet_keeps_text_as_it_is(tmp_path):
    nodes, edges = export_graph(small_page(), tmp_path, "csv")
    frame = pd.read_csv(nodes, keep_default_na=False)
    assert frame["id"].tolist() == ["a", "b", "'=c"]
    assert frame["class"].tolist() == ["ash", "'-oak", "'-oak"]
    assert pd.read_csv(edges)["target"].tolist() == ["b", "'=c"]
    nodes, edges = export_graph(small_page(), tmp_path, "parquet")
    assert pd.read_parquet(nodes)["id"].tolist() == ["a", "b", "=c"]
    assert pd.read_parquet(edges).equals(edge_frame(small_page()))


def test_scipy_reads_the_npz_and_its_arrays_follow_it(tmp_path):
    page = small_page()
    (path,) = export_graph(page, tmp_path, "npz")
    assert (sp.load_npz(path) != page.adjacency).nnz == 0
    with np.load(path) as file:
        assert file["is_given"].tolist() == [True, True, False, False]
        assert file["ids"].tolist() == ["a", "b", "=c"]
        assert file["class"].tolist() == ["ash", "-oak", "-oak"]


def test_files_that_are_there_are_kept_unless_told_otherwise(tmp_path):
    export_graph(small_page(), tmp_path, "csv")
    with pytest.raises(InputError, match="--overwrite"):
        export_graph(small_page(), tmp_path, "csv")
    export_graph(small_page(), tmp_path, "csv", overwrite=True)


def test_text_that_xml_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    page = small_page(ids=("a", "b\x01", "c"))
    with pytest.raises(InputError, match="control characters"):
        export_graph(page, tmp_path, "graphml")
    assert list(tmp_path.iterdir()) == []
    assert len(export_graph(page, tmp_path, "csv")) == 2
