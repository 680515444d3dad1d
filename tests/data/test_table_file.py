import datetime
import zipfile

import numpy as np
import pandas as pd
import pytest

from glnn.data import table_file
from glnn.data.table_file import TableFormat, first_row, open_parquet, read_frame
from glnn.exceptions import DataFormatError, InputError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def put(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "id,x\na,1.5\nb,2\n"),
        ("a.csv", "id;x\r\na;1,5\r\nb;2"),
        ("a.csv", "id\tx\na\t1.5\n\n\nb\t2\n"),
        ("a.tsv", "id\tx\na\t1.5\nb\t2\n"),
        ("a.csv", "id|x\na|1.5\nb|2\n"),
        ("a.csv", b"\xef\xbb\xbfid,x\ra,1.5\rb,2\r"),
        ("a.csv", "id,x\na,1.5\nb,2\n".encode("utf-16")),
        ("a.csv", '"id","x"\n"a","1.5"\n"b","2"\n'),
    ],
)
def test_delimiters_decimals_line_ends_and_marks_of_spreadsheets_are_understood(
    tmp_path, name, content
):
    frame = read_frame(put(tmp_path, content, name))
    assert frame.to_dict("list") == {"id": ["a", "b"], "x": [1.5, 2]}


def test_names_with_commas_do_not_hide_the_semicolon(tmp_path):
    frame = read_frame(put(tmp_path, "name, first;x\nann;1\nbob;2\n"))
    assert list(frame) == ["name, first", "x"]


def test_quoted_cells_may_hold_anything(tmp_path):
    frame = read_frame(put(tmp_path, 'id,x\n"a,""b""\nc",1\n'))
    assert frame.to_numpy().tolist() == [['a,"b"\nc', 1]]


def test_ids_stay_the_text_they_are(tmp_path):
    frame = read_frame(put(tmp_path, "id,x\n07,1\nNA,\n"), as_text=lambda names: {"id"})
    assert frame["id"].tolist() == ["07", "NA"]
    assert np.array_equal(frame["x"], [1, np.nan], equal_nan=True)


def test_another_delimiter_decimal_and_encoding_can_be_named(tmp_path):
    path = put(tmp_path, "naïve:x\ncafé:61,333\n".encode("cp1252"))
    with pytest.raises(DataFormatError, match=r"UTF-8 text, got other bytes at byte 2.*--encoding"):
        read_frame(path)
    frame = read_frame(path, TableFormat(":", ",", "cp1252"))
    assert frame.to_dict("list") == {"naïve": ["café"], "x": [61.333]}
    assert read_frame(path, TableFormat(":", ".", "cp1252"))["x"].tolist() == [61333]


def test_a_comma_found_in_one_column_is_the_mark_of_all(tmp_path):
    frame = read_frame(put(tmp_path, "a;b\n1,5;1.234\n2;2.000,5\n"))
    assert frame.to_dict("list") == {"a": [1.5, 2], "b": [1234, 2000.5]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "column names"),
        ("\n\n", "column names"),
        ("a,a\n1,2\n", "'a' twice"),
        ("a,,c\n1,2,3\n", "column 2"),
        ("a,b\n1,2,3\n", "as many cells"),
        ("a,b\n1,2\n1,2,3\n", "Expected 2 fields in line 3, saw 3"),
        ('a,b\n"1,2\n', "CSV"),
        (b"a,b\n\xff,1\n", "UTF-8"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, content, message):
    with pytest.raises(DataFormatError, match=message) as caught:
        read_frame(put(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_a_line_without_end_is_refused_before_pandas_sees_it(tmp_path, monkeypatch):
    monkeypatch.setattr(table_file, "MAX_LINE", 100)
    monkeypatch.setattr(table_file, "_BLOCK", 64)
    with pytest.raises(DataFormatError, match="at most 100 characters"):
        read_frame(put(tmp_path, "a,b\n" + "a," * 1000))
    assert len(read_frame(put(tmp_path, "a,b\n" + "12345,6\n" * 1000))) == 1000


def test_absurdly_many_columns_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(table_file, "MAX_COLUMNS", 1000)
    with pytest.raises(DataFormatError, match="columns"):
        read_frame(put(tmp_path, "a," * 1001 + "\n"))


def test_a_first_column_without_a_name_holds_ids(tmp_path):
    assert list(read_frame(put(tmp_path, ",x\na,1\n"))) == ["id", "x"]


def test_without_a_header_columns_are_numbered_and_the_first_line_counts(tmp_path):
    path = put(tmp_path, "a,1\nb,2\n")
    assert read_frame(path, header=False).to_dict("list") == {"0": ["a", "b"], "1": [1, 2]}
    assert first_row(path) == ("a", "1")


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
    monkeypatch.setattr(table_file, "SMALL_TABLE", 10)
    monkeypatch.setattr(table_file, "MAX_CELLS_PER_BYTE", 1)
    pq.write_table(pa.table({"x": np.zeros(100_000)}), tmp_path / "t.parquet")
    with pytest.raises(DataFormatError, match="Nothing was read"):
        open_parquet(tmp_path / "t.parquet")


@pytest.mark.parametrize(
    ("name", "words"), [("t.parquet", "whole Parquet file"), ("t.xlsx", "whole Excel file")]
)
def test_what_is_no_such_file_is_refused(tmp_path, name, words):
    with pytest.raises(DataFormatError, match=words):
        read_frame(put(tmp_path, b"id,x\n1,2\n", name))
    with pytest.raises(InputError, match="existing file"):
        read_frame(tmp_path / f"none{name}")


def test_a_sheet_of_excel_is_a_table(tmp_path):
    pytest.importorskip("openpyxl")
    path = tmp_path / "t.xlsx"
    frame = pd.DataFrame({"id": ["a", "b"], "x": [1.5, None], "n": [1, 2]})
    frame.assign(day=pd.Timestamp("2020-01-02")).to_excel(path, index=False)
    read = read_frame(path)
    assert first_row(path) == ("id", "x", "n", "day")
    assert read["n"].tolist() == [1, 2]
    assert np.array_equal(read["x"], [1.5, np.nan], equal_nan=True)
    assert read["day"].dtype.kind == "M"


@pytest.mark.parametrize("member", ["xl/workbook.xml", "xl/worksheets/sheet1.xml"])
def test_entities_inside_a_workbook_are_refused(tmp_path, member):
    pytest.importorskip("openpyxl")
    pd.DataFrame({"x": [1]}).to_excel(tmp_path / "good.xlsx", index=False)
    bad = tmp_path / "bad.xlsx"
    with zipfile.ZipFile(tmp_path / "good.xlsx") as old, zipfile.ZipFile(bad, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == member:
                content = b'<!DOCTYPE x [<!ENTITY a "aaaa">]>' + content.partition(b"?>")[2]
            new.writestr(name, content)
    with pytest.raises(DataFormatError, match="DOCTYPE"):
        read_frame(bad)


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    path = tmp_path / "bomb.xlsx"
    monkeypatch.setattr(table_file, "MAX_EXCEL_BYTES", 2**20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"0" * 2**23)
    with pytest.raises(DataFormatError, match="sensible size"):
        read_frame(path)
