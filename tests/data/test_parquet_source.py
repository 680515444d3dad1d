import tracemalloc

import numpy as np
import pandas as pd
import pytest

from glnn.data import TableOptions, read_table_data, write_data
from glnn.data.arrays import no_values
from glnn.data.parquet_source import ParquetSource

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def test_rows_of_the_file_are_rows_of_the_table(small, tmp_path):
    write_data(small, tmp_path / "s.parquet")
    source = ParquetSource(tmp_path / "s.parquet", graph_path=tmp_path / "s.edges.parquet")
    without = small.replace(features=no_values(6, 2), graph=None)
    assert source.record.equals(without)
    assert source.record.name == "s"
    for rows in (slice(0, 2), slice(2, 6), slice(3, 3)):
        assert (source.features(rows) != small.features[rows]).nnz == 0
        assert (source.graph_rows(rows) != small.graph[rows]).nnz == 0


def test_text_dates_and_gaps_are_encoded_as_in_the_whole_table(tmp_path, monkeypatch):
    monkeypatch.setattr("glnn.data.parquet_source._BATCH_ROWS", 4)
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
    whole = read_table_data(tmp_path / "t.parquet", options=options)
    for rows in (slice(0, 50), slice(10, 12), slice(21, 49)):
        assert (source.features(rows) != whole.features[rows]).nnz == 0
    assert source.record.labels.tolist() == whole.labels.tolist()
    assert source.graph_rows(slice(0, 9)) is None
    assert source.report.lines()


def test_the_memory_of_some_rows_follows_their_number(tmp_path):
    n_nodes, n_features, group = 20_000, 50, 500
    values = np.random.default_rng(0).random((n_nodes, n_features), dtype=np.float32)
    frame = pd.DataFrame(values, columns=[f"x{j}" for j in range(n_features)])
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "t.parquet", row_group_size=group)
    source = ParquetSource(tmp_path / "t.parquet")
    tracemalloc.start()
    part = source.features(slice(5000, 5100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.array_equal(part.toarray(), values[5000:5100])
    assert peak < values.nbytes / 4
    assert peak < 40 * 100 * n_features * 4 + 500_000


def test_only_groups_with_wanted_rows_are_read(tmp_path, monkeypatch):
    frame = pd.DataFrame({"x": np.arange(40.0)})
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "t.parquet", row_group_size=10)
    source = ParquetSource(tmp_path / "t.parquet")
    read, batches = [], source._batches
    monkeypatch.setattr(source, "_batches", lambda group: read.append(group) or batches(group))
    assert source.features(slice(12, 25)).toarray().ravel().tolist() == list(range(12, 25))
    assert read == [1, 2]


def test_the_digest_is_that_of_the_bytes(tmp_path):
    for name, number in {"a": 1.0, "b": 1.0, "c": 2.0}.items():
        frame = pd.DataFrame({"x": [number, 0.0]})
        pq.write_table(pa.Table.from_pandas(frame), tmp_path / f"{name}.parquet")
    a, b, c = (ParquetSource(tmp_path / f"{name}.parquet").digest for name in "abc")
    assert a == b != c
