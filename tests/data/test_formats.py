import numpy as np
import pytest

from glnn.data import read_data, write_data
from glnn.data.arrays import symmetric_from_pairs
from glnn.data.formats import READ_SUFFIXES, WRITE_SUFFIXES, is_graph_alone
from glnn.data.interop import from_scipy
from glnn.exceptions import InputError


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


def test_a_table_of_sources_and_targets_is_a_graph(tmp_path):
    (tmp_path / "e.csv").write_text("source,target,weight\na,b,2\n")
    data = read_data(tmp_path / "e.csv")
    assert (data.n_nodes, data.n_edges, data.n_features) == (2, 1, 2)


def test_nodes_files_find_what_lies_beside(tmp_path):
    (tmp_path / "t.nodes").write_text("a\t1\tx\nb\t0\ty\n")
    (tmp_path / "t.edges").write_text("a b\n")
    (tmp_path / "t.labels").write_text("y\nx\n")
    data = read_data(tmp_path / "t.nodes")
    assert data.class_names == ("y", "x")
    assert data.n_edges == 1


def test_folders_are_known_by_their_files(tmp_path):
    with pytest.raises(InputError, match=r"no ind\.NAME\.allx"):
        read_data(tmp_path)


@pytest.mark.dataset
def test_published_folders_are_read(published):
    raw = published / "raw"
    if not raw.is_dir():
        pytest.skip("the raw files are not in GLNN_DATA")
    assert read_data(raw / "TerrorAttack", graph="loc_org").n_edges == 571
    assert read_data(raw / "planetoid", name="cora").n_edges == 5278
    assert read_data(raw / "planetoid" / "ind.cora.graph").n_nodes == 2708


def test_what_is_written_can_be_read():
    assert set(WRITE_SUFFIXES) <= set(READ_SUFFIXES)


@pytest.mark.parametrize("suffix", WRITE_SUFFIXES)
def test_a_graph_alone_stays_one_in_every_format_and_grows_with_its_edges(tmp_path, suffix):
    sizes = []
    for n_nodes in (50, 400):
        ring = np.arange(n_nodes)
        graph = symmetric_from_pairs(ring, (ring + 1) % n_nodes, n_nodes)
        data = from_scipy(graph, ids=np.array([f"node {k}" for k in ring]))
        path = tmp_path / f"r{n_nodes}{suffix}"
        write_data(data, path)
        again = read_data(path)
        order = np.argsort([int(name.split()[1]) for name in again.node_ids])
        assert (again.graph[order][:, order] != data.graph).nnz == 0
        assert is_graph_alone(again) and not path.with_suffix(f".edges{suffix}").exists()
        sizes.append(path.stat().st_size)
    assert sizes[1] < 12 * sizes[0]  # eight times the edges, 64 times the pairs


def test_nodes_without_an_edge_are_not_lost_in_a_table(tmp_path):
    graph = symmetric_from_pairs(np.array([0]), np.array([1]), 3)
    write_data(from_scipy(graph), tmp_path / "g.csv")
    assert read_data(tmp_path / "g.csv").n_nodes == 3


def test_labels_or_features_make_more_than_a_graph(small):
    assert not is_graph_alone(small)
    bare = from_scipy(small.graph)
    assert is_graph_alone(bare)
    assert not is_graph_alone(from_scipy(small.graph, labels=small.labels))
    assert not is_graph_alone(from_scipy(small.graph, features=2 * bare.features))
