import datetime

import numpy as np
import pandas as pd
import pytest

from glnn.data import cells


def text(*values):
    return pd.Series(list(values), dtype=object)


@pytest.mark.parametrize("cell", ["1_000", "１", "two", "1,5", "0x1f", "2020-01-01", "1 2"])
def test_cells_that_are_no_numbers_are_not_taken_for_such(cell):
    assert cells.as_numbers(text("1", cell)) is None


@pytest.mark.parametrize("gap", [*cells.GAPS, " ", None, np.nan, pd.NA])
def test_gaps_among_numbers_are_gaps(gap):
    assert np.array_equal(cells.as_numbers(text("1.5", gap)), [1.5, np.nan], equal_nan=True)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 0]),
        pd.Series([1.0, 0.0]),
        pd.Series([True, False]),
        pd.array([1, 0], dtype="Int8"),
        pd.array([True, False], dtype="boolean"),
        text("1", " 0 "),
        text(True, 0),
        pd.Series(["1", "0"], dtype="str"),
    ],
)
def test_numbers_of_every_kind_are_numbers(column):
    assert cells.as_numbers(pd.Series(column)).tolist() == [1, 0]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1 + 2j]),
        pd.to_datetime(pd.Series(["2020-01-01"])),
        pd.Series([pd.Timedelta(1)]),
        pd.Series(["1"], dtype="category"),
        text(datetime.date(2020, 1, 1)),
        text([1]),
    ],
)
def test_what_is_no_number_is_not_made_one(column):
    assert cells.as_numbers(column) is None


def test_whole_numbers_are_text_without_a_point_and_dates_as_people_write_them():
    assert cells.as_text(pd.Series([3.0, -0.5, np.nan, 1e300])) == ["3", "-0.5", "", "1e+300"]
    assert cells.as_text(pd.Series([2**60, None], dtype="Int64")) == [str(2**60), ""]
    days = pd.to_datetime(pd.Series(["2020-01-02", None]))
    assert cells.as_text(days) == ["2020-01-02", ""]
    assert cells.as_text(days + pd.Timedelta(hours=1)) == ["2020-01-02T01:00:00", ""]


@pytest.mark.parametrize(
    ("column", "mark"),
    [
        (["1,5", "2"], ","),
        (["0,125"], ","),
        (["1.234,5"], ","),
        (["12345,678"], ","),
        (["1,234.5"], "."),
        (["1,234,567"], "."),
        (["61,333", "12,000"], None),
        (["1,5", "Rome"], None),
        (["Smith, Ann"], None),
    ],
)
def test_the_decimal_mark_is_known_where_cells_tell(column, mark):
    assert cells.clear_decimal(pd.DataFrame({"a": text(*column)})) == mark


def test_numbers_with_points_beside_tell_that_commas_part_thousands():
    frame = pd.DataFrame({"a": text("61,333"), "b": [0.5]})
    assert cells.clear_decimal(frame) == "."
    assert cells.clear_decimal(frame.assign(b=[2.0])) is None


@pytest.mark.parametrize(
    ("decimal", "column", "numbers"),
    [
        (".", ["61,333", "1,234.5", ""], [61333, 1234.5, np.nan]),
        (",", ["61.333", "1.234,5", "-2"], [61333, 1234.5, -2]),
    ],
)
def test_groups_of_three_digits_become_numbers(decimal, column, numbers):
    frame = pd.DataFrame({"a": pd.Series(column, dtype="str"), "id": ["1,000"] * 3})
    out = cells.with_grouped_numbers(frame, decimal, {"id"})
    assert np.array_equal(out["a"], numbers, equal_nan=True)
    assert out["id"].tolist() == ["1,000"] * 3


def test_only_a_whole_column_of_groups_is_ambiguous():
    assert cells.is_ambiguous(text("12", "61,333")) == "61,333"
    assert cells.is_ambiguous(text("12", "61,33")) is None
    assert cells.is_ambiguous(pd.Series([1.0])) is None


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
    assert cells.date_format(text(*column)) == form


def test_days_that_could_be_months_are_told():
    assert cells.ambiguous_dates(text("01/02/2020", "03/04/2021")) == "'01/02/2020'"
    assert cells.ambiguous_dates(text("01/02/2020", "13/04/2021")) is None
    assert cells.ambiguous_dates(text("2020-01-02")) is None


def test_dates_are_days_however_they_are_written():
    expected = [18292.5, np.nan]
    for column, form in [
        (text("2020-01-31T12:00", ""), "ISO8601"),
        (pd.to_datetime(pd.Series(["2020-01-31 12:00", None])), "dates"),
        (text("2020-01-31T12:00", None), "dates"),
    ]:
        assert np.array_equal(cells.days_since_1970(column, form), expected, equal_nan=True)
    assert cells.days_since_1970(text("31.01.2020"), "ISO8601") is None
