import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from glnn.data import TableOptions, npz, write_data
from glnn.data.row_source import NpzSource, ParquetSource
from glnn.data.synthetic import block_model
from glnn.exceptions import InputError
from glnn.report.predict import DataDescription
from glnn.report.sources import NO_GRAPH, Source, choose_split


def people(folder, labels="u,v,,u,v,"):
    rows = [f"r{k},{k},{label}" for k, label in enumerate(labels.split(","))]
    (folder / "p.csv").write_text("id,x,label\n" + "\n".join(rows) + "\n")
    return folder / "p.csv"


def test_a_table_opens_with_its_choices(tmp_path):
    path = people(tmp_path)
    (tmp_path / "e.csv").write_text("source,target\nr0,r1\nr0,r0\nr1,r9\n")
    how = {"graph": tmp_path / "e.csv", "options": TableOptions(on_unknown="drop")}
    source = Source(str(path), **how)
    assert source.data.n_edges == 1
    assert any("unknown" in note for note in source.notes)
    assert any("self loop" in note for note in source.notes)
    assert Source(str(path), graph=NO_GRAPH).data.graph is None


def test_edges_beside_a_table_are_taken_and_said(tmp_path):
    path = people(tmp_path)
    (tmp_path / "p.edges.csv").write_text("source,target\nr0,r1\n")
    source = Source(str(path))
    assert source.data.n_edges == 1
    assert source.notes[0] == "graph: taken from p.edges.csv"


@pytest.mark.parametrize("name", ["digits", "other.npz"])
@pytest.mark.parametrize(
    ("option", "choice"),
    [
        ("--id", {"id_column": "name"}),
        ("--drop", {"drop": ["x*"]}),
        ("--features", {"features": "x"}),
    ],
)
def test_table_options_need_a_table(tmp_path, name, option, choice, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "other.npz").touch()
    with pytest.raises(InputError, match=f"{option} must come with a table"):
        _ = Source(name, options=TableOptions(**choice)).data


@pytest.mark.parametrize(
    ("option", "choice"),
    [
        ("--as", {"kinds": {"zip": "category"}}),
        ("--na", {"na": ["?"]}),
        ("--sheet", {"sheet": "2"}),
        ("--source", {"source_column": "from"}),
    ],
)
def test_a_data_set_with_a_name_takes_no_option_of_a_file(option, choice):
    with pytest.raises(InputError, match=f"{option} must come with a table"):
        _ = Source("digits", options=TableOptions(**choice)).data


@pytest.mark.parametrize("suffix", [".csv", ".edges"])
def test_a_list_of_edges_takes_labels_by_id(tmp_path, suffix):
    mark = "," if suffix == ".csv" else " "
    head = "source,target\n" if suffix == ".csv" else ""
    path = tmp_path / f"e{suffix}"
    path.write_text(head + "".join(f"{a}{mark}{b}\n" for a, b in ("xy", "yz", "zw")))
    (tmp_path / "l.csv").write_text("id,label\nx,u\nw,v\n")
    data = Source(str(path), labels=tmp_path / "l.csv").data
    known = dict(zip(data.node_ids.tolist(), data.labels.tolist()))
    assert known == {"x": 0, "y": -1, "z": -1, "w": 1}
    assert data.class_names == ("u", "v")
    with pytest.raises(InputError, match="--graph must come with a table"):
        _ = Source(str(path), graph=path).data


def test_labels_of_each_class_train_and_all_others_test(blobs):
    data = blobs
    split = choose_split(data, 4, seed=1)
    assert np.bincount(data.labels[split.train]).tolist() == [4, 4, 4]
    assert split.test.size == data.n_nodes - 12
    assert split.val.size == 0
    assert split == choose_split(data, 4, seed=1)
    assert split != choose_split(data, 4, seed=2)


def test_the_published_split_is_the_default_where_there_is_one(blobs):
    parts = {"train": np.array([0, 1, 2]), "val": np.array([3]), "test": np.array([5, 9])}
    split = choose_split(blobs.replace(splits=parts, name="cora"), None, 0)
    for key, nodes in parts.items():
        np.testing.assert_array_equal(getattr(split, key), nodes)


def test_own_data_train_on_every_known_label(tmp_path):
    split = choose_split(Source(str(people(tmp_path))).data, None, 0)
    assert split.train.tolist() == [0, 1, 3, 4]
    assert split.test.size == split.val.size == 0


@pytest.mark.parametrize(
    ("labels", "words"), [(",,", "no label at all"), ("u,u,", "one class"), ("-1,1,", "'-1'")]
)
def test_labels_that_cannot_train_are_refused(tmp_path, labels, words):
    data = Source(str(people(tmp_path, labels))).data
    with pytest.raises(InputError, match=words):
        choose_split(data, None, 0)


@pytest.mark.parametrize("count", [0, -3, 101])
def test_a_draw_that_is_not_possible_is_refused(blobs, count):
    with pytest.raises(InputError, match=r"per.class"):
        choose_split(blobs, count, 0)


def test_labels_of_another_table_come_with_rows_too(tmp_path, together):
    table = pd.DataFrame({"id": ["r0", "r1", "r2"], "x": [1.0, 2.0, 4.0]})
    table.to_parquet(tmp_path / "q.parquet")
    (tmp_path / "l.csv").write_text("id,label\nr2,w\nr0,u\n")
    path, labels = str(tmp_path / "q.parquet"), tmp_path / "l.csv"
    sources = together(2, lambda peers: Source(path, labels=labels, peers=peers))
    for source in sources:
        assert isinstance(source.rows, ParquetSource)
        assert source.data.labels.tolist() == Source(path, labels=labels).data.labels.tolist()


@pytest.fixture
def counted(monkeypatch):
    """The numbers of rows that were read at once of a source's features."""
    read = []

    def counting(features):
        return lambda self, rows: read.append(rows.stop - rows.start) or features(self, rows)

    for kind in (NpzSource, ParquetSource):
        monkeypatch.setattr(kind, "features", counting(kind.features))
    return read


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".csv"])
@pytest.mark.parametrize("no_graph", [False, True])
def test_several_processes_read_their_rows_and_know_what_one_would(
    tmp_path, monkeypatch, together, counted, suffix, no_graph
):
    monkeypatch.setattr(npz, "MIN_STORED_BYTES", 1)
    data = block_model(40, 2, n_features=3, seed=0)
    write_data(data, tmp_path / f"mine{suffix}")
    path = str(tmp_path / f"mine{suffix}")
    how = {"graph": NO_GRAPH if no_graph else None, "labels_per_class": 3}
    whole = Source(path, **how)
    assert whole.data.n_nodes == 40

    def read(peers):
        source = Source(path, **how, peers=peers)
        return source, source.data, source.split, source.local_rows, source.notes

    parts = together(3, read)
    assert sorted(counted) == ([] if suffix == ".csv" else [13, 13, 14])
    features, graphs = zip(*(rows for _, _, _, rows, _ in parts))
    assert abs(sp.vstack(features) - whole.data.features).max() == 0
    first, record = parts[0][:2]
    if no_graph:
        assert graphs == (None,) * 3 and record.graph is None
    else:
        assert abs(sp.vstack(graphs) - whole.data.graph).max() == 0
        assert abs(record.graph - whole.data.graph).max() == 0
    for name in ("n_nodes", "n_features", "class_names", "feature_names", "name", "provenance"):
        assert getattr(record, name) == getattr(whole.data, name)
    for _, data, split, _, notes in parts:
        assert data.features.nnz == 0
        np.testing.assert_array_equal(split.train, whole.split.train)
        assert notes == whole.notes
    assert DataDescription.of(first) == DataDescription.of(whole)
    if suffix == ".csv":
        assert first.digest == whole.digest
