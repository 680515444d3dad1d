import numpy as np
import pytest

from glnn.data import table_text
from glnn.data.table_file import read_frame
from glnn.data.table_text import TableFormat, _likely_delimiter
from glnn.exceptions import DataFormatError


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
    monkeypatch.setattr(table_text, "MAX_LINE", 100)
    monkeypatch.setattr(table_text, "_BLOCK", 64)
    with pytest.raises(DataFormatError, match="at most 100 characters"):
        read_frame(put(tmp_path, "a,b\n" + "a," * 1000))
    assert len(read_frame(put(tmp_path, "a,b\n" + "12345,6\n" * 1000))) == 1000


def test_absurdly_many_columns_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(table_text, "MAX_COLUMNS", 1000)
    with pytest.raises(DataFormatError, match="columns"):
        read_frame(put(tmp_path, "a," * 1001 + "\n"))


def test_a_first_column_without_a_name_holds_ids(tmp_path):
    assert list(read_frame(put(tmp_path, ",x\na,1\n"))) == ["id", "x"]


@pytest.mark.parametrize("name", ["tab", "\\t", "\t"])
def test_a_tab_can_be_named_as_people_type_it(tmp_path, name):
    frame = read_frame(put(tmp_path, "a,b\tc\n1,5\t2\n"), TableFormat(delimiter=name))
    assert frame.to_dict("list") == {"a,b": [1.5], "c": [2]}


@pytest.mark.parametrize(
    ("sample", "mark"),
    [
        ("a;b,c;d\n1;2;3\n4;5;6\n", ";"),  # as often in every line
        ("a,b;c\n1,2\n3,4", ","),
        ("a\tb\n1\t2\n3", "\t"),  # the last line may be cut
        ("a,b\n1;2;3\n4;5;6;7\n", ","),
        ("a,b\n1\n2;3", ","),  # a mark that the first line lacks is none
        ("alone\n1\n2\n", ","),
        ("", ","),
    ],
)
def test_the_mark_that_stands_equally_often_in_all_lines_parts_columns(sample, mark):
    assert _likely_delimiter(sample) == mark
