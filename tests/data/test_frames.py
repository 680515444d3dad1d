import numpy as np
import pandas as pd
import pytest

from glnn.data.frames import encode_frame, encoded_frame, numeric_frame
from glnn.exceptions import InputError

PEOPLE = pd.DataFrame(
    {"age": [30, None, 50], "city": ["Rome", "Bern", "Rome"]}, index=["ann", "bob", "cy"]
)


def test_an_encoded_frame_keeps_its_index_and_new_rows_get_the_same_columns():
    numbers, encoder = encode_frame(PEOPLE, encode="onehot", missing="median")
    assert list(numbers.index) == ["ann", "bob", "cy"]
    assert numbers.to_numpy().tolist() == [[30, 0, 1], [40, 1, 0], [50, 0, 1]]
    new = pd.DataFrame({"city": ["Oslo"], "age": [None]}, index=["dan"])
    assert encoded_frame(new, encoder).to_dict("index") == {
        "dan": {"age": 40, "city=Bern": 0, "city=Rome": 0}
    }


def test_a_frame_of_plain_numbers_is_returned_as_it_is():
    frame = pd.DataFrame({"a": [1.5, 2], "b": [True, False], 3: [1, 2]})
    assert numeric_frame(frame) is frame


def test_numbers_of_other_kinds_become_floats_under_their_names():
    frame = pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), 3: ["0.5", "1"]})
    found = numeric_frame(frame)
    assert list(found.columns) == ["a", 3]
    assert found.to_numpy().tolist() == [[1, 0.5], [2, 1]]
    assert frame[3].tolist() == ["0.5", "1"]


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["Rome", "Bern"], "'Rome' in column 'x'.*encode_frame"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), "dates in column 'x'"),
        (pd.Categorical(["a", "b"]), "'a' in column 'x'"),
        ([1.0, np.nan], "NaN or missing values in 'x'.*missing='median'"),
        (pd.array([1, None], dtype="Int64"), "NaN or missing values in 'x'"),
        ([pd.NA, pd.NA], "NaN or missing values in 'x'"),
        ([pd.NaT, pd.NaT], "in column 'x'|NaN or missing values in 'x'"),
    ],
)
def test_what_is_no_number_is_refused_with_the_way_out(column, message):
    with pytest.raises(InputError, match=message) as caught:
        numeric_frame(pd.DataFrame({"x": column}))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("names", "said"),
    [("abc", r"in 'a', 'b', 'c'\. "), ("abcd", " and 1 more col")],
)
def test_three_columns_with_gaps_are_named_and_the_others_counted(names, said):
    frame = pd.DataFrame({name: [1.0, np.nan] for name in names})
    with pytest.raises(InputError, match=said):
        numeric_frame(frame)
