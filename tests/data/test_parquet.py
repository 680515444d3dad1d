import datetime

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from glnn.data import parquet as module
from glnn.data import read_data, write_data
from glnn.data.parquet import ParquetTable, write_parquet
from glnn.exceptions import DataFormatError, InputError

SETTINGS = settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@SETTINGS
@given(st.data())
def test_write_then_read_is_the_identity(records, any_text, tmp_path_factory, data):
    record = records(data, text=any_text)
    path = tmp_path_factory.mktemp("parquet") / "record.parquet"
    write_data(record, path)
    assert read_data(path).equals(record)


def test_every_plain_type_becomes_numbers_or_text(tmp_path):
    path = tmp_path / "t.parquet"
    columns = {
        "whole": pa.array([1, 2**60], pa.int64()),
        "holes": pa.array([1, None], pa.int32()),
        "truth": pa.array([True, False]),
        "half": pa.array(np.array([0.5, 1], dtype=np.float16)),
        "word": pa.array(["a", None]),
        "kind": pa.array(["x", "x"]).dictionary_encode(),
        "day": pa.array([datetime.date(2020, 1, 2)] * 2),
    }
    pq.write_table(pa.table(columns), path)
    table = ParquetTable(path)
    assert table.first_row == tuple(columns)
    whole, holes, truth, half, word, kind, day = next(iter(table.batches()))
    assert whole == ["1", str(2**60)]
    assert np.array_equal(holes, [1, np.nan], equal_nan=True)
    assert truth.tolist() == [1, 0]
    assert half.tolist() == [0.5, 1]
    assert (word, kind, day[0]) == (["a", ""], ["x", "x"], "2020-01-02")


def test_lists_in_cells_are_refused(tmp_path):
    pq.write_table(pa.table({"x": [[1, 2]]}), tmp_path / "t.parquet")
    with pytest.raises(DataFormatError, match="one value a cell"):
        list(ParquetTable(tmp_path / "t.parquet").batches())


def test_an_absurd_size_is_refused_before_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SMALL_TABLE", 10)
    monkeypatch.setattr(module, "MAX_CELLS_PER_BYTE", 1)
    write_parquet(tmp_path / "t.parquet", {"x": np.zeros(100_000)})
    with pytest.raises(DataFormatError, match="Nothing was read"):
        ParquetTable(tmp_path / "t.parquet")


def test_what_is_no_parquet_file_is_refused(tmp_path):
    (tmp_path / "t.parquet").write_bytes(b"id,x\n1,2\n")
    with pytest.raises(DataFormatError, match="whole Parquet file"):
        ParquetTable(tmp_path / "t.parquet")
    with pytest.raises(InputError, match="existing file"):
        ParquetTable(tmp_path / "none.parquet")


def test_mutated_files_give_a_record_or_one_clear_line(small, tmp_path, survives_mutation):
    path = tmp_path / "small.parquet"
    write_data(small.replace(graph=None), path)
    survives_mutation(lambda: read_data(path), [path])
