import tracemalloc
import zipfile

import numpy as np
import pandas as pd
import pytest

from glnn.data import NodeData, TableOptions, npz, read_data, write_data
from glnn.data.node_data import empty_features
from glnn.data.npz import write_node_npz
from glnn.data.row_source import NpzSource, ParquetSource, RecordSource, open_source
from glnn.exceptions import DataFormatError

# npz files


@pytest.fixture
def stored(monkeypatch):
    """Every array is large enough to be written without compression."""
    monkeypatch.setattr(npz, "MIN_STORED_BYTES", 1)


def test_rows_of_the_file_are_rows_of_the_record(small, tmp_path, stored):
    weighted = small.replace(graph=small.graph * 3)
    write_node_npz(weighted, tmp_path / "s.npz")
    source = NpzSource(tmp_path / "s.npz")
    without = small.replace(features=empty_features(6, 2), graph=None)
    assert source.record.equals(without)
    assert source.record.name == "small"
    for rows in (slice(0, 2), slice(2, 6), slice(3, 3)):
        assert (source.features(rows) != weighted.features[rows]).nnz == 0
        assert (source.graph_rows(rows) != weighted.graph[rows]).nnz == 0


def test_the_memory_of_some_rows_follows_their_number(tmp_path, stored):
    n_nodes, n_features = 4000, 200
    features = np.random.default_rng(0).random((n_nodes, n_features), dtype=np.float32)
    write_node_npz(NodeData.from_arrays(features, [-1] * n_nodes), tmp_path / "big.npz")
    source = NpzSource(tmp_path / "big.npz")
    peaks = []
    for n_rows in (40, 400):
        tracemalloc.start()
        part = source.features(slice(1000, 1000 + n_rows))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert np.array_equal(part.toarray(), features[1000 : 1000 + n_rows])
    entry = 4 + 8  # a value and a column
    assert peaks[0] < 6 * entry * 40 * n_features + 200_000
    assert peaks[1] < 6 * entry * 400 * n_features + 200_000
    assert peaks[1] < features.nbytes * 2


def test_a_file_whose_row_starts_lie_is_refused(small, tmp_path, stored):
    write_node_npz(small, tmp_path / "s.npz")
    starts = np.array(small.features.indptr)
    starts[1:3] = [7, 2]
    with (
        zipfile.ZipFile(tmp_path / "s.npz") as old,
        zipfile.ZipFile(tmp_path / "t.npz", "w") as new,
    ):
        for name in old.namelist():
            content = old.read(name)
            if name == "features_indptr.npy":
                content = content[: -starts.nbytes] + starts.tobytes()
            new.writestr(name, content)
    with pytest.raises(DataFormatError, match="row starts"):
        NpzSource(tmp_path / "t.npz")


def test_mutated_files_give_rows_or_one_clear_line(small, tmp_path, stored, survives_mutation):
    path = tmp_path / "s.npz"
    write_node_npz(small, path)

    def read():
        source = NpzSource(path)
        source.features(slice(1, 4))
        source.graph_rows(slice(1, 4))

    survives_mutation(read, [path])


# Parquet tables

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def test_rows_of_the_file_are_rows_of_the_table(small, tmp_path):
    write_data(small, tmp_path / "s.parquet")
    source = ParquetSource(tmp_path / "s.parquet", graph_path=tmp_path / "s.edges.parquet")
    without = small.replace(features=empty_features(6, 2), graph=None)
    assert source.record.equals(without)
    assert source.record.name == "s"
    for rows in (slice(0, 2), slice(2, 6), slice(3, 3)):
        assert (source.features(rows) != small.features[rows]).nnz == 0
        assert (source.graph_rows(rows) != small.graph[rows]).nnz == 0


def test_text_dates_and_gaps_are_encoded_as_in_the_whole_table(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "x": np.where(np.arange(50) % 7, rng.random(50), np.nan),
            "city": rng.choice(["Rome", "Bern"], 50),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 99, 50), unit="D"),
            "label": rng.choice(["u", "v", ""], 50),
        }
    )
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "t.parquet", row_group_size=11)
    options = TableOptions(encode="auto", missing="indicator")
    source = ParquetSource(tmp_path / "t.parquet", options=options)
    whole = read_data(tmp_path / "t.parquet", options=options)
    for rows in (slice(0, 50), slice(10, 12), slice(21, 49)):
        assert (source.features(rows) != whole.features[rows]).nnz == 0
    assert source.record.labels.tolist() == whole.labels.tolist()
    assert source.graph_rows(slice(0, 9)) is None
    assert source.report.column_rows()[1] == ("city", "category: 2 values, one column each")


# Sources of files


@pytest.mark.parametrize(
    ("name", "kind"),
    [("s.csv", RecordSource), ("s.parquet", ParquetSource), ("s.npz", NpzSource)],
)
def test_a_file_is_read_by_rows_where_its_format_allows(small, tmp_path, monkeypatch, name, kind):
    monkeypatch.setattr(npz, "MIN_STORED_BYTES", 1)
    write_data(small, tmp_path / name)
    source = open_source(tmp_path / name)
    assert type(source) is kind
    assert open_source(tmp_path / name).digest == source.digest
    assert (source.features(slice(1, 5)) != small.features[1:5]).nnz == 0
    assert (source.graph_rows(slice(1, 5)) != small.graph[1:5]).nnz == 0
