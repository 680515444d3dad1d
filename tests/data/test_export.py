import csv

import networkx as nx
import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data import read_data, write_graph, write_predictions
from glnn.data.export import GRAPH_SUFFIXES
from glnn.exceptions import InputError

IDS = ["=SUM(A1)", '"quoted"', "a,b;c", "line\nbreak", " blank ", "漢字"]


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".tsv", ".graphml"])
def test_a_graph_comes_back_with_its_ids(small, tmp_path, suffix):
    path = tmp_path / f"graph{suffix}"
    write_graph(small.graph * 0.25, path, IDS)
    again = read_data(path)
    order = [again.ids.tolist().index(name) for name in IDS]
    assert np.array_equal(again.graph.toarray()[np.ix_(order, order)], small.graph.toarray() * 0.25)


def test_gexf_is_read_by_networkx(small, tmp_path):
    write_graph(small.graph, tmp_path / "graph.gexf", IDS)
    assert nx.read_gexf(tmp_path / "graph.gexf").number_of_edges() == small.n_edges


@pytest.mark.parametrize("suffix", GRAPH_SUFFIXES)
def test_without_ids_nodes_are_numbered(small, tmp_path, suffix):
    write_graph(small.graph, tmp_path / f"graph{suffix}")
    if suffix != ".gexf":
        again = read_data(tmp_path / f"graph{suffix}")
        assert again.node_ids.tolist() == list(range(6))


@pytest.mark.parametrize(
    ("graph", "name", "message"),
    [
        (sp.csr_matrix([[0, 1], [0, 0]]), "g.csv", "symmetric"),
        (sp.csr_matrix((2, 3)), "g.csv", "square"),
        (np.zeros((2, 2)), "g.csv", "sparse"),
        (sp.csr_matrix((2, 2)), "g.gml", "Did you mean '.graphml'"),
    ],
)
def test_what_is_no_graph_or_no_format_is_refused(tmp_path, graph, name, message):
    with pytest.raises(InputError, match=message):
        write_graph(graph, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_predictions_carry_id_label_and_probability(tmp_path):
    table = np.array([[0.25, 0.75], [0.9, 0.1]])
    write_predictions(tmp_path / "p.csv", IDS[:2], ["yes", "no"], table, ["no", "yes"])
    with (tmp_path / "p.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["id"] for line in lines] == IDS[:2]
    assert [line["predicted"] for line in lines] == ["yes", "no"]
    assert [float(line["probability"]) for line in lines] == [0.75, 0.9]
    assert float(lines[0]["p(no)"]) == 0.25


def test_given_labels_stand_beside_predictions(tmp_path):
    more = {"given": ["no", ""], "held_out": ["yes", ""]}
    write_predictions(tmp_path / "p.csv", None, ["yes", "no"], np.eye(2), ["yes", "no"], **more)
    first, second = (tmp_path / "p.csv").read_text().splitlines()[:2]
    assert first == "id,given_label,predicted,probability,p(yes),p(no),held_out"
    assert second == "0,no,yes,1,1,0,yes"


def test_predictions_without_ids_number_the_nodes(tmp_path):
    write_predictions(tmp_path / "p.csv", None, np.array([1, 0]), np.eye(2), np.array([0, 1]))
    assert (tmp_path / "p.csv").read_text().splitlines()[1].startswith("0,1,")


@pytest.mark.parametrize(
    ("labels", "table"),
    [(["no"], np.eye(2)), (["no", "maybe"], np.eye(2)), (["no", "no"], np.eye(3))],
)
def test_predictions_that_do_not_fit_are_refused(tmp_path, labels, table):
    with pytest.raises(InputError):
        write_predictions(tmp_path / "p.csv", ["a", "b"], labels, table, ["no", "yes"])


def test_a_table_for_people_has_no_formulas(tmp_path):
    ids, classes = ["=1+1", "-3"], ["@x", "b"]
    for safe in (True, False):
        answers = (ids, classes, np.eye(2), classes)
        write_predictions(tmp_path / "p.csv", *answers, spreadsheet_safe=safe)
        lines = (tmp_path / "p.csv").read_text().splitlines()
        assert [line.split(",")[0] for line in lines[1:]] == (["'=1+1", "-3"] if safe else ids)
        assert lines[1].split(",")[1] == ("'@x" if safe else "@x")
