import datetime

import numpy as np
import pandas as pd
import pytest

from glnn.data import parquet
from glnn.data.parquet import open_parquet
from glnn.data.table_file import first_row, read_frame
from glnn.exceptions import DataFormatError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def test_every_plain_type_of_parquet_keeps_its_meaning(tmp_path):
    columns = {
        "whole": pa.array([1, 2**60], pa.int64()),
        "holes": pa.array([1, None], pa.int32()),
        "truth": pa.array([True, False]),
        "half": pa.array(np.array([0.5, 1], dtype=np.float16)),
        "word": pa.array(["a", None]),
        "kind": pa.array(["x", "x"]).dictionary_encode(),
        "day": pa.array([datetime.datetime(2020, 1, 2)] * 2),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    frame = read_frame(tmp_path / "t.parquet")
    assert first_row(tmp_path / "t.parquet") == tuple(columns)
    assert frame["whole"].tolist() == [1, 2**60]
    assert frame["holes"].tolist() == [1, pd.NA]
    assert frame["truth"].tolist() == [True, False]
    assert frame["day"].dtype.kind == "M"
    assert frame["word"].isna().tolist() == [False, True]


@pytest.fixture
def no_text(tmp_path):
    """A file whose column of text has bytes that are none."""
    words = [b"ann", b"\xffn2", b"cy"]
    offsets = pa.py_buffer(np.cumsum([0, *map(len, words)]).astype(np.int32).tobytes())
    column = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"".join(words))])
    pq.write_table(pa.table({"id": column, "x": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def test_text_that_is_no_utf8_is_one_line(no_text):
    with pytest.raises(DataFormatError, match="must be a whole Parquet file"):
        read_frame(no_text)
    file = open_parquet(no_text)
    with pytest.raises(DataFormatError, match="must be a whole Parquet file"):
        parquet.guarded(no_text, lambda: parquet.parquet_frame(next(file.iter_batches())))


def test_lists_in_cells_are_refused(tmp_path):
    pq.write_table(pa.table({"x": [[1, 2]]}), tmp_path / "t.parquet")
    with pytest.raises(DataFormatError, match="one value a cell"):
        read_frame(tmp_path / "t.parquet")


def test_an_absurd_size_is_refused_before_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "SMALL_TABLE", 10)
    monkeypatch.setattr(parquet, "MAX_CELLS_PER_BYTE", 1)
    pq.write_table(pa.table({"x": np.zeros(100_000)}), tmp_path / "t.parquet")
    with pytest.raises(DataFormatError, match="Nothing was read"):
        open_parquet(tmp_path / "t.parquet")
    many = {f"c{k}": np.zeros(500) for k in range(40)}
    pq.write_table(pa.table(many), tmp_path / "t.parquet")
    monkeypatch.setattr(parquet, "SMALL_TABLE", 19_999)
    monkeypatch.setattr(parquet, "MAX_CELLS_PER_BYTE", 0)
    with pytest.raises(DataFormatError, match="500 rows and 40 columns"):
        open_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(parquet, "SMALL_TABLE", 20_000)
    assert open_parquet(tmp_path / "t.parquet").metadata.num_columns == 40


def test_what_a_table_may_declare():
    assert (parquet.SMALL_TABLE, parquet.MAX_CELLS_PER_BYTE) == (10_000_000, 2_000)
