import json

import numpy as np
import pandas as pd
import pytest

from glnn.data.encoder import TableEncoder, _listed
from glnn.data.options import TableOptions
from glnn.exceptions import DataFormatError, InputError

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


def test_columns_stand_side_by_side_under_their_names():
    encoder = fitted()
    assert encoder.feature_names == ("age", "age is missing", "city=Bern", "city=Rome", "born")
    expected = [[30, 0, 0, 1, 0], [40, 1, 1, 0, 2], [50, 0, 0, 0, 1]]
    assert encoder.transform(PEOPLE, "people.csv").toarray().tolist() == expected
    assert encoder.constant == ("one",)


def test_an_encoder_that_was_saved_as_json_encodes_new_rows_alike():
    encoder = fitted()
    again = TableEncoder.from_dict(json.loads(json.dumps(encoder.to_dict())))
    assert again == encoder
    new = PEOPLE.iloc[::-1][["born", "city", "age"]].assign(more="x")
    assert np.array_equal(
        again.transform(new, "new.csv").toarray(),
        encoder.transform(PEOPLE, "people.csv").toarray()[::-1],
    )


def test_what_was_done_is_told():
    assert list(fitted().notes()) == [
        "features: one-hot encoded 'city'",
        "features: took days since the first date of 'born'",
        "features: filled gaps with the median of 'age'",
        "features: added a column that marks the gaps of 'age'",
        "features: left out, one value or all different: 'one'",
    ]


def test_no_column_is_told_of_that_was_not_added():
    notes = list(fitted(PEOPLE[["age"]], TableOptions(missing="median")).notes())
    assert notes == ["features: filled gaps with the median of 'age'"]


def test_what_is_not_used_of_a_new_table_is_told():
    new = PEOPLE.assign(shoe=1, id=["a", "b", "c"], city=["Oslo", "Rome", None])
    assert list(fitted().notes_on_new(new, ("id",))) == [
        "left out columns 'shoe'",
        "features: no column for new values of 'city': 'Oslo'",
    ]


def test_a_column_that_a_new_table_lacks_is_named():
    with pytest.raises(InputError, match="got none named 'age'"):
        fitted().transform(PEOPLE.drop(columns="age"), "new.csv")


def test_a_bad_cell_of_new_rows_is_named_with_its_row():
    with pytest.raises(DataFormatError, match=r"column 'age' of new.csv .* got 'old' in row 2"):
        fitted().transform(PEOPLE.assign(age=["1", "old", "2"]), "new.csv")


def test_batches_of_rows_together_are_the_table(monkeypatch):
    frame = pd.DataFrame({"x": np.arange(100.0), "y": ["a", "b"] * 50})
    encoder = fitted(frame)
    whole = encoder.transform(frame, "t.csv")
    monkeypatch.setattr("glnn.data.encoder._BATCH_CELLS", 21)
    assert (encoder.transform(frame, "t.csv") != whole).nnz == 0
    assert encoder.transform(frame[:0], "t.csv").shape == (0, 3)


def test_a_table_whose_columns_all_say_nothing_is_refused():
    with pytest.raises(InputError, match="says something"):
        fitted(PEOPLE[["one"]])


def test_all_columns_that_need_a_word_are_named_at_once():
    with pytest.raises(DataFormatError, match=r"column 'age' .* empty cell .*: 'city', 'born'\.$"):
        fitted(PEOPLE, TableOptions())
    with pytest.raises(DataFormatError, match=r"\(--drop 'age'\)\.$"):
        fitted(PEOPLE[["age"]], TableOptions())


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], []),
        (["a"], ["Not: 'a'"]),
        (list("abc"), ["Not: 'a', 'b', 'c'"]),
        (list("abcde"), ["Not: 'a', 'b', 'c' and 2 more"]),
    ],
)
def test_three_names_are_listed_and_the_others_counted(names, said):
    assert list(_listed("Not:", names)) == said
