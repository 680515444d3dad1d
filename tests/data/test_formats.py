import csv

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data import NodeData, read_data, write_data, write_graph, write_predictions
from glnn.data.formats import (
    WRITE_SUFFIXES,
    is_graph_only,
    open_data,
)
from glnn.data.node_data import symmetric_from_pairs
from glnn.exceptions import InputError

# Records


def graph_only(graph, features=None, labels=None, **fields):
    """A record of a graph, with the identity as features and without labels unless given."""
    n_nodes = graph.shape[0]
    features = sp.identity(n_nodes, format="csr") if features is None else features
    labels = np.full(n_nodes, -1) if labels is None else labels
    return NodeData.from_arrays(features, labels, edges=graph, **fields)


@pytest.mark.parametrize("suffix", WRITE_SUFFIXES)
def test_every_format_holds_a_whole_record(small, tmp_path, suffix):
    write_data(small, tmp_path / f"r{suffix}")
    assert read_data(tmp_path / f"r{suffix}").equals(small)


@pytest.mark.parametrize("suffix", WRITE_SUFFIXES)
def test_every_format_holds_a_record_without_graph_labels_and_names(small, tmp_path, suffix):
    labels = np.full(6, -1)
    bare = small.replace(
        graph=None, labels=labels, class_names=(), splits={}, ids=None, feature_names=None
    )
    write_data(bare, tmp_path / f"r{suffix}")
    assert read_data(tmp_path / f"r{suffix}").equals(bare)


def test_an_unknown_suffix_is_answered_with_those_there_are(small, tmp_path):
    with pytest.raises(InputError, match=r"must be one of .*\.graphml"):
        read_data(tmp_path / "x.docx")
    with pytest.raises(InputError, match=r"Did you mean '\.parquet'"):
        write_data(small, tmp_path / "x.parq")


@pytest.mark.dataset
def test_published_folders_are_read(published):
    raw = published / "raw"
    if not raw.is_dir():
        pytest.skip("the raw files are not in GLNN_DATA")
    assert read_data(raw / "TerrorAttack", graph="loc_org").n_edges == 571
    assert read_data(raw / "planetoid" / "ind.cora.graph").n_edges == 5278
    assert read_data(raw / "planetoid" / "ind.cora.graph").n_nodes == 2708


@pytest.mark.parametrize("suffix", WRITE_SUFFIXES)
def test_a_graph_alone_stays_one_in_every_format_and_grows_with_its_edges(tmp_path, suffix):
    sizes = []
    for n_nodes in (50, 400):
        ring = np.arange(n_nodes)
        graph = symmetric_from_pairs(ring, (ring + 1) % n_nodes, n_nodes)
        data = graph_only(graph, ids=np.array([f"node {k}" for k in ring]))
        path = tmp_path / f"r{n_nodes}{suffix}"
        write_data(data, path)
        again = read_data(path)
        order = np.argsort([int(name.split()[1]) for name in again.node_ids])
        assert (again.graph[order][:, order] != data.graph).nnz == 0
        assert is_graph_only(again) and not path.with_suffix(f".edges{suffix}").exists()
        sizes.append(path.stat().st_size)
    assert sizes[1] < 12 * sizes[0]  # eight times the edges, 64 times the pairs


# Records by name, and their summary


def test_a_name_or_a_path_opens_data(small, tmp_path):
    assert open_data("wine").n_nodes == 178
    write_data(small, tmp_path / "s.npz")
    assert open_data(str(tmp_path / "s.npz")).equals(small)
    with pytest.raises(InputError, match="Did you mean 'cora'"):
        open_data("coraa")


# Graphs and predictions

IDS = ["=SUM(A1)", '"quoted"', "a,b;c", "line\nbreak", " blank ", "漢字"]


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".tsv", ".graphml"])
def test_a_graph_comes_back_with_its_ids(small, tmp_path, suffix):
    path = tmp_path / f"graph{suffix}"
    write_graph(small.graph * 0.25, path, IDS)
    again = read_data(path)
    order = [again.ids.tolist().index(name) for name in IDS]
    assert np.array_equal(again.graph.toarray()[np.ix_(order, order)], small.graph.toarray() * 0.25)


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


def test_ids_are_kept_where_their_column_is_called_as_another_one(tmp_path):
    table = np.array([[0.25, 0.75]])
    write_predictions(
        tmp_path / "p.csv", ["a7"], ["yes"], table, ["no", "yes"], id_name="predicted"
    )
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines == ["id,predicted,probability,p(no),p(yes)", "a7,yes,0.75,0.25,0.75"]


def test_predictions_carry_id_label_and_probability(tmp_path):
    table = np.array([[0.25, 0.75], [0.9, 0.1]])
    write_predictions(tmp_path / "p.csv", IDS[:2], ["yes", "no"], table, ["no", "yes"])
    with (tmp_path / "p.csv").open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert [line["id"] for line in lines] == IDS[:2]
    assert [line["predicted"] for line in lines] == ["yes", "no"]
    assert [float(line["probability"]) for line in lines] == [0.75, 0.9]
    assert float(lines[0]["p(no)"]) == 0.25


def test_a_table_for_people_has_no_formulas(tmp_path):
    ids, classes = ["=1+1", "-3"], ["@x", "b"]
    for safe in (True, False):
        answers = (ids, classes, np.eye(2), classes)
        write_predictions(tmp_path / "p.csv", *answers, spreadsheet_safe=safe)
        lines = (tmp_path / "p.csv").read_text().splitlines()
        assert [line.split(",")[0] for line in lines[1:]] == (["'=1+1", "-3"] if safe else ids)
        assert lines[1].split(",")[1] == ("'@x" if safe else "@x")
