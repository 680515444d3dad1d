import numpy as np
import pandas as pd
import pytest

from glnn.data import TableOptions, table_text
from glnn.data.table_files import read_frame
from glnn.exceptions import DataFormatError, InputError

# Text files


def put(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_ids_stay_the_text_they_are(tmp_path):
    frame = read_frame(put(tmp_path, "id,x\n07,1\nNA,\n"), select_text=lambda names: {"id"})
    assert frame["id"].tolist() == ["07", "NA"]
    assert np.array_equal(frame["x"], [1, np.nan], equal_nan=True)


def test_another_delimiter_decimal_and_encoding_can_be_named(tmp_path):
    path = put(tmp_path, "naïve:x\ncafé:61,333\n".encode("cp1252"))
    assert read_frame(path).to_dict("list") == {"naïve": ["café"], "x": [61333]}
    with pytest.raises(
        DataFormatError, match=r"UTF-8 text, got other bytes at byte 2.*set encoding"
    ):
        read_frame(path, TableOptions(encoding="utf-8"))
    frame = read_frame(path, TableOptions(delimiter=":", decimal=",", encoding="cp1252"))
    assert frame.to_dict("list") == {"naïve": ["café"], "x": [61.333]}
    assert read_frame(path, TableOptions(delimiter=":", decimal=".", encoding="cp1252"))[
        "x"
    ].tolist() == [61333]


def test_a_line_without_end_is_refused_before_pandas_sees_it(tmp_path, monkeypatch):
    monkeypatch.setattr(table_text, "MAX_LINE", 100)
    monkeypatch.setattr(table_text, "_BLOCK", 64)
    with pytest.raises(DataFormatError, match="at most 100 characters"):
        read_frame(put(tmp_path, "a,b\n" + "a," * 1000))
    assert len(read_frame(put(tmp_path, "a,b\n" + "12345,6\n" * 1000))) == 1000


@pytest.mark.parametrize("name", ["tab", "\\t", "\t"])
def test_a_tab_can_be_named_as_people_type_it(tmp_path, name):
    frame = read_frame(put(tmp_path, "a,b\tc\n1,5\t2\n"), TableOptions(delimiter=name))
    assert frame.to_dict("list") == {"a,b": [1.5], "c": [2]}


# Cells


def text(*values):
    return pd.Series(list(values), dtype=object)


@pytest.mark.parametrize("cell", ["1_000", "１", "two", "1,5", "0x1f", "2020-01-01", "1 2"])
def test_cells_that_are_no_numbers_are_not_taken_for_such(cell):
    assert table_text.to_numbers(text("1", cell)) is None


@pytest.mark.parametrize("gap", [*table_text.MISSING_MARKERS, " ", None, np.nan, pd.NA])
def test_gaps_among_numbers_are_gaps(gap):
    assert np.array_equal(table_text.to_numbers(text("1.5", gap)), [1.5, np.nan], equal_nan=True)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 0]),
        pd.Series([1.0, 0.0]),
        pd.Series([True, False]),
        pd.array([1, 0], dtype="Int8"),
        pd.array([True, False], dtype="boolean"),
        text("1", " 0 "),
        text(1, 0),
        text(True, 0),
        pd.Series(["1", "0"], dtype="str"),
    ],
)
def test_numbers_of_every_kind_are_numbers(column):
    assert table_text.to_numbers(pd.Series(column)).tolist() == [1, 0]


def test_integers_beyond_64_bits_are_numbers_of_less_precision(tmp_path):
    frame = read_frame(put(tmp_path, f"id,x,y\na,{2**64},{10**400}\nb,3,1\nc,-5,2\n"))
    assert table_text.to_numbers(frame["x"]).tolist() == [2.0**64, 3, -5]
    assert table_text.to_numbers(frame["y"]).tolist() == [np.inf, 1, 2]


def test_whole_numbers_are_text_without_a_point_and_dates_as_people_write_them():
    assert table_text.to_text(pd.Series([3.0, -0.5, np.nan, 1e300])) == ["3", "-0.5", "", "1e+300"]
    assert table_text.to_text(pd.Series([2**60, None], dtype="Int64")) == [str(2**60), ""]
    days = pd.to_datetime(pd.Series(["2020-01-02", None]))
    assert table_text.to_text(days) == ["2020-01-02", ""]
    assert table_text.to_text(days + pd.Timedelta(hours=1)) == ["2020-01-02T01:00:00", ""]


@pytest.mark.parametrize(
    ("column", "form"),
    [
        (["2020-01-31", ""], "ISO8601"),
        (["2020-01-31T10:00", "2020-02-01 11:00:01.5"], "ISO8601"),
        (["31.01.2020"], "%d.%m.%Y"),
        (["2020/01/31"], "%Y/%m/%d"),
        (["31/01/2020", "01/02/2020"], "%d/%m/%Y"),
        (["01/31/2020"], "%m/%d/%Y"),
        (["2020"], None),
        (["soon"], None),
        (["2020-13-01"], None),
    ],
)
def test_the_way_dates_are_written_is_found(column, form):
    assert table_text.detect_date_format(text(*column)) == form


# TableOptions


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"encode": "one-hot"}, "Did you mean 'onehot'"),
        ({"missing": "mean"}, "error, median, indicator"),
        ({"on_unknown": "keep"}, "error, drop"),
        ({"decimal": ";"}, "decimal must be one of"),
        ({"delimiter": "ab"}, "one character"),
        ({"encoding": "martian"}, "codec of Python"),
        ({"lable_column": "x"}, "Did you mean 'label_column'"),
    ],
)
def test_a_wrong_option_is_refused_with_the_right_ones(change, message):
    with pytest.raises(InputError, match=message):
        TableOptions().replace(**change)
