import json

import numpy as np
import pandas as pd
import pytest

from glnn.data.encode import (
    AUTO_CATEGORIES,
    MAX_CATEGORIES,
    TableEncoder,
    encode_frame,
    fit_column,
    to_numeric_frame,
)
from glnn.data.table_text import TableOptions
from glnn.engine.archive import Packer, unpack
from glnn.exceptions import DataFormatError, InputError

# One column


def column(*values):
    return pd.Series(list(values), dtype=object)


def coded(values, new=None, **options):
    """Fit on some values and encode the same, or new ones."""
    code = fit_column("t.csv", values, "a", TableOptions(**options))
    return code, code.encode(values if new is None else new, "t.csv", 0).tolist()


def test_an_indicator_marks_the_gaps_where_training_had_some():
    code, values = coded(column("1", "", "3"), missing="indicator")
    assert code.feature_names == ("a", "a is missing")
    assert values == [[1, 0], [2, 1], [3, 0]]
    code, values = coded(column("1", "3"), missing="indicator")
    assert (code.feature_names, values) == (("a",), [[1], [3]])
    assert code.encode(column(""), "new.csv", 0).tolist() == [[2]]


def test_each_value_of_a_text_column_gets_a_column():
    code, values = coded(column("Rome", " Bern ", "", "Rome"), encode="onehot")
    assert code.feature_names == ("a=Bern", "a=Rome")
    assert values == [[0, 1], [1, 0], [0, 0], [0, 1]]
    assert code.encode(column("Oslo"), "new.csv", 0).tolist() == [[0, 0]]


def test_many_different_words_are_refused_by_onehot_and_counted_by_auto():
    words = [f"name {k % 150}" for k in range(300)]
    with pytest.raises(DataFormatError, match=r"at most 100 different values .* got 150.*auto"):
        coded(column(*words), encode="onehot")
    words += ["once", "", "name 0"]
    code, values = coded(column(*words, *words))
    assert code.feature_names == ("a",)
    assert np.allclose([values[0], values[1], values[-3], values[-2]], np.c_[[6, 4, 2, 0]] / 606)
    assert np.allclose(code.encode(column("never seen"), "new.csv", 0), 1 / 606)
    assert MAX_CATEGORIES > AUTO_CATEGORIES


def test_units_and_decimal_commas_of_training_are_found_in_new_rows():
    code, values = coded(column("12,50 €", "1.200,00 €", "?", "3 €", "4 €"), missing="median")
    assert values == [[12.5], [1200], [8.25], [3], [4]]
    new = column("7,5", "1.000 €", "12.5", "")
    assert code.encode(new, "new.csv", 0).ravel().tolist() == [7.5, 1000, 12.5, 8.25]
    with pytest.raises(DataFormatError, match="got '7 kg' in row 2"):
        code.encode(column("1 €", "7 kg"), "new.csv", 0)


@pytest.mark.parametrize("encode", ["onehot", "auto"])
def test_dates_are_days_since_the_first(encode):
    dates = column("2020-03-01", "2020-02-28", "2020-02-28T12:00")
    code, values = coded(dates, encode=encode)
    assert (code.kind, values) == ("date", [[2], [0], [0.5]])
    assert code.encode(column("2021-03-01"), "new.csv", 0).tolist() == [[367]]


# TableEncoder

PEOPLE = pd.DataFrame(
    {
        "age": [30, None, 50],
        "city": ["Rome", "Bern", None],
        "born": ["1990-01-01", "1990-01-03", "1990-01-02"],
        "one": [1, 1, 1],
    }
)
OPTIONS = TableOptions(encode="auto", missing="indicator", drop_constant=True)


def fitted(frame=PEOPLE, options=OPTIONS):
    return TableEncoder.fit("people.csv", list(frame), frame.__getitem__, options)


def test_periods_are_dates_and_lengths_of_time_are_days():
    months = pd.Series(pd.period_range("2024-01", periods=2, freq="M"))
    assert coded(months)[1] == [[0], [31]]
    assert coded(pd.Series(pd.to_timedelta(["36h", None, "12h"])))[1] == [[1.5], [1], [0.5]]


@pytest.mark.parametrize("cell", [[1, 2], {"a": 1}, (1,), {1}, np.ones(2)])
def test_cells_of_several_values_are_refused(cell):
    frame = pd.DataFrame({"x": [1.0, 2.0], "tags": pd.Series([cell, cell])})
    with pytest.raises(DataFormatError, match="'tags' of the frame must hold one value a cell"):
        encode_frame(frame)


def test_rows_of_one_name_are_encoded_each_for_itself():
    frame = pd.DataFrame({"a": ["1", "?", "2", "", "3"] * 3}, index=["x"] * 15)
    assert encode_frame(frame)[0]["a"].tolist() == [1, 2, 2, 2, 3] * 3
    assert to_numeric_frame(frame.replace(["?", ""], "7"))["a"].tolist() == [1, 7, 2, 7, 3] * 3


def test_a_column_that_is_not_there_cannot_be_decided():
    with pytest.raises(InputError, match=r"column of X, got 'ZIP'.*Did you mean 'zip'"):
        encode_frame(pd.DataFrame({"zip": [1.0, 2.0]}), kinds={"ZIP": "category"})


def test_a_frame_without_columns_is_refused():
    with pytest.raises(InputError, match="informative feature column, got none"):
        encode_frame(pd.DataFrame(index=range(3)))


def test_columns_stand_side_by_side_under_their_names():
    encoder = fitted()
    assert encoder.feature_names == ("age", "age is missing", "city=Bern", "city=Rome", "born")
    expected = [[30, 0, 0, 1, 0], [40, 1, 1, 0, 2], [50, 0, 0, 0, 1]]
    assert encoder.transform(PEOPLE, "people.csv").toarray().tolist() == expected
    assert encoder.describe() == [
        ("age", "number; 1 gap filled with the median 40 and marked in a second column"),
        ("city", "category: 2 values, one column each; 1 gap"),
        ("born", "date: days since 1990-01-01"),
        ("one", "left out: one value only"),
    ]


def test_an_encoder_that_was_saved_as_json_encodes_new_rows_alike():
    encoder = fitted()
    page = json.loads(json.dumps(Packer().pack(encoder)))
    again = unpack(TableEncoder, page, {})
    assert again == encoder
    new = PEOPLE.iloc[::-1][["born", "city", "age"]].assign(more="x")
    assert np.array_equal(
        again.transform(new, "new.csv").toarray(),
        encoder.transform(PEOPLE, "people.csv").toarray()[::-1],
    )


def test_all_columns_that_need_a_word_are_named_at_once():
    strict = TableOptions(encode="error", missing="error")
    with pytest.raises(DataFormatError, match=r"column 'age' .* empty cell .*: 'city', 'born'\.$"):
        fitted(PEOPLE, strict)
    with pytest.raises(DataFormatError, match=r"\(--drop 'age'\)\.$"):
        fitted(PEOPLE[["age"]], strict)


# Frames


def test_numbers_of_other_kinds_become_floats_under_their_names():
    frame = pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), 3: ["0.5", "1"]})
    found = to_numeric_frame(frame)
    assert list(found.columns) == ["a", 3]
    assert found.to_numpy().tolist() == [[1, 0.5], [2, 1]]
    assert frame[3].tolist() == ["0.5", "1"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["Rome", "Bern"], "'Rome' in column 'x'.*encode_frame"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "dates in column 'x'"),
        (pd.Categorical(["a", "b"]), "'a' in column 'x'"),
        ([1.0, np.nan], "NaN or missing values in 'x'.*encode='auto'"),
        (pd.array([1, None], dtype="Int64"), "NaN or missing values in 'x'"),
        ([pd.NA, pd.NA], "NaN or missing values in 'x'"),
        ([pd.NaT, pd.NaT], "in column 'x'|NaN or missing values in 'x'"),
    ],
)
def test_what_is_no_number_is_refused_with_the_way_out(column, message):
    with pytest.raises(InputError, match=message) as caught:
        to_numeric_frame(pd.DataFrame({"x": column}))
    assert "\n" not in str(caught.value)
