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
