import pytest

from glnn.data import npz, write_data
from glnn.data.npz_source import NpzSource
from glnn.data.open_source import open_source
from glnn.data.parquet_source import ParquetSource
from glnn.data.source import RecordSource, RowSource


@pytest.mark.parametrize(
    ("name", "kind"),
    [("s.csv", RecordSource), ("s.parquet", ParquetSource), ("s.npz", NpzSource)],
)
def test_a_file_is_read_by_rows_where_its_format_allows(small, tmp_path, monkeypatch, name, kind):
    monkeypatch.setattr(npz, "STORED_BYTES", 1)
    write_data(small, tmp_path / name)
    source = open_source(tmp_path / name)
    assert type(source) is kind
    assert isinstance(source, RowSource)
    assert (source.features(slice(1, 5)) != small.features[1:5]).nnz == 0
    assert (source.graph_rows(slice(1, 5)) != small.graph[1:5]).nnz == 0


def test_small_npz_files_are_read_whole(small, tmp_path):
    write_data(small, tmp_path / "s.npz")
    assert type(open_source(tmp_path / "s.npz")) is RecordSource
