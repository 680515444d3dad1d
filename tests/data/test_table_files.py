import datetime
import zipfile

import numpy as np
import pandas as pd
import pytest

from glnn.data import npz, read_data, table_files
from glnn.data.table_files import (
    escape_formula,
    open_parquet,
    read_first_row,
    read_frame,
    unescape_formula,
    write_node_table,
)
from glnn.exceptions import DataFormatError, InputError

# Tables by suffix


def put(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".xlsx"])
def test_the_same_table_in_every_format(tmp_path, suffix):
    pytest.importorskip("pyarrow")
    pytest.importorskip("openpyxl")
    frame, path = pd.DataFrame({"id": ["a", "b"], "x": [1.5, 2.0]}), tmp_path / f"t{suffix}"
    write = {".parquet": frame.to_parquet, ".xlsx": frame.to_excel}.get(suffix, frame.to_csv)
    write(path, index=False, **({"sep": "\t"} if suffix == ".tsv" else {}))
    assert read_frame(path).to_dict("list") == frame.to_dict("list")
    assert read_first_row(path) == ("id", "x")


@pytest.mark.parametrize(
    ("name", "words"), [("t.parquet", "whole Parquet file"), ("t.xlsx", "whole Excel file")]
)
def test_what_is_no_such_file_is_refused(tmp_path, name, words):
    with pytest.raises(DataFormatError, match=words):
        read_frame(put(tmp_path, b"id,x\n1,2\n", name))
    with pytest.raises(InputError, match="existing file"):
        read_frame(tmp_path / f"none{name}")


# Excel workbooks

pytest.importorskip("openpyxl")


@pytest.mark.parametrize("member", ["xl/workbook.xml", "xl/worksheets/sheet1.xml"])
def test_entities_inside_a_workbook_are_refused(tmp_path, member):
    pd.DataFrame({"x": [1]}).to_excel(tmp_path / "good.xlsx", index=False)
    bad = tmp_path / "bad.xlsx"
    with zipfile.ZipFile(tmp_path / "good.xlsx") as old, zipfile.ZipFile(bad, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == member:
                content = b'<!DOCTYPE x [<!ENTITY a "aaaa">]>' + content.partition(b"?>")[2]
            new.writestr(name, content)
    with pytest.raises(DataFormatError, match="whole Excel file"):
        read_frame(bad)


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "bomb.xlsx"
    monkeypatch.setattr(npz, "SMALL_BYTES", 2**20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"0" * 2**23)
    with pytest.raises(DataFormatError, match="sensible size"):
        read_frame(path)


# Parquet files

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
    assert read_first_row(tmp_path / "t.parquet") == tuple(columns)
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


def test_an_absurd_size_is_refused_before_reading(tmp_path, monkeypatch):
    monkeypatch.setattr(table_files, "SMALL_TABLE", 10)
    monkeypatch.setattr(table_files, "MAX_CELLS_PER_BYTE", 1)
    pq.write_table(pa.table({"x": np.zeros(100_000)}), tmp_path / "t.parquet")
    with pytest.raises(DataFormatError, match="Nothing was read"):
        open_parquet(tmp_path / "t.parquet")
    many = {f"c{k}": np.zeros(500) for k in range(40)}
    pq.write_table(pa.table(many), tmp_path / "t.parquet")
    monkeypatch.setattr(table_files, "SMALL_TABLE", 19_999)
    monkeypatch.setattr(table_files, "MAX_CELLS_PER_BYTE", 0)
    with pytest.raises(DataFormatError, match="500 rows and 40 columns"):
        open_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(table_files, "SMALL_TABLE", 20_000)
    assert open_parquet(tmp_path / "t.parquet").metadata.num_columns == 40


# Writing tables


def test_edges_of_an_older_table_are_not_taken_for_this_one(small, tmp_path):
    write_node_table(small, tmp_path / "t.csv")
    with pytest.raises(InputError, match=r"t\.edges\.csv must not exist"):
        write_node_table(small.replace(graph=None), tmp_path / "t.csv")
    assert read_data(tmp_path / "t.csv").equals(small)


def test_a_parquet_file_has_groups_of_rows_that_can_be_read_alone(small, tmp_path, monkeypatch):
    write_node_table(small, tmp_path / "whole.parquet")
    monkeypatch.setattr("glnn.data.table_files._GROUP_CELLS", 4)
    write_node_table(small, tmp_path / "parts.parquet")
    assert pq.ParquetFile(tmp_path / "parts.parquet").num_row_groups == small.n_nodes
    assert read_data(tmp_path / "parts.parquet").equals(read_data(tmp_path / "whole.parquet"))


# Formulas in cells


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe(start):
    assert escape_formula(f"{start}cmd|' /C calc'!A0") == f"'{start}cmd|' /C calc'!A0"


@pytest.mark.parametrize("text", ["=a", "'=a", "''=a", "-3", "'-3", "'oak", "'", "", "- x", "@"])
def test_an_escaped_text_is_taken_back_also_if_it_has_an_apostrophe_of_its_own(text):
    assert unescape_formula(escape_formula(text)) == text
