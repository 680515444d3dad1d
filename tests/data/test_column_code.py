import numpy as np
import pandas as pd
import pytest

from glnn.data.column_code import AUTO_CATEGORIES, MAX_CATEGORIES, ColumnCode, fit_column
from glnn.data.options import TableOptions
from glnn.exceptions import DataFormatError


def column(*values):
    return pd.Series(list(values), dtype=object)


def coded(values, new=None, **options):
    """Fit on some values and encode the same, or new ones."""
    code = fit_column("t.csv", values, "a", TableOptions(**options))
    return code, code.encode(values if new is None else new, "t.csv", 0).tolist()


def test_numbers_stay_as_they_are():
    code, values = coded(column("1", "0.5", "-1e3"))
    assert (code.feature_names, values) == (("a",), [[1], [0.5], [-1000]])


def test_the_largest_single_precision_number_is_still_a_number():
    assert coded(column("3.4028235e+38"))[1] == [[np.finfo(np.float32).max]]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("tall", "'tall' in row 2.*--encode auto"),
        ("2020-01-01", "'2020-01-01' in row 2.*--encode auto"),
        ("", "an empty cell in row 2.*--missing median"),
        ("nan", "an empty cell in row 2"),
        ("inf", "'inf' in row 2"),
        ("1e39", "in row 2"),
    ],
)
def test_a_cell_that_is_no_number_is_named_with_its_row(cell, message):
    with pytest.raises(DataFormatError, match=f"column 'a' of t.csv .*{message}"):
        coded(column("1", cell))


def test_gaps_get_the_median_of_training_in_new_rows_too():
    code, values = coded(column("1", "", "3", "7"), missing="median")
    assert values == [[1], [3], [3], [7]]
    assert code.encode(column("", "9"), "new.csv", 0).tolist() == [[3], [9]]


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
    assert code.new_values(column("Oslo", "Rome", "")) == ["Oslo"]


def test_a_column_with_one_word_among_numbers_is_text():
    code, values = coded(column("1", "many"), encode="onehot")
    assert (code.feature_names, values) == (("a=1", "a=many"), [[1, 0], [0, 1]])


def test_a_number_column_with_gaps_is_never_taken_for_text():
    for encode in ("error", "onehot", "auto"):
        with pytest.raises(DataFormatError, match=r"2 in all.*--missing median"):
            coded(column(*map(str, range(200)), "", ""), encode=encode)


def test_many_different_words_are_refused_by_onehot_and_counted_by_auto():
    words = [f"name {k % 150}" for k in range(300)]
    with pytest.raises(DataFormatError, match=r"at most 100 different values .* got 150.*auto"):
        coded(column(*words), encode="onehot")
    words += ["once", "", "name 0"]
    code, values = coded(column(*words), encode="auto")
    assert code.feature_names == ("a",)
    assert np.allclose([values[0], values[1], values[-3], values[-2]], np.c_[[3, 2, 1, 0]] / 303)
    assert np.allclose(code.encode(column("never seen"), "new.csv", 0), 1 / 303)
    assert MAX_CATEGORIES > AUTO_CATEGORIES


def test_a_name_of_its_own_in_every_row_says_nothing():
    names = column(*(f"person {k}" for k in range(AUTO_CATEGORIES + 1)))
    assert fit_column("t.csv", names, "a", TableOptions(encode="auto")) is None


def test_constant_columns_are_dropped_when_asked():
    for values, options in [
        (column("2", "2"), {}),
        (column("2", "", "2"), {"missing": "median"}),
        (column("x", "x"), {"encode": "onehot"}),
        (column("2020-01-01", "2020-01-01"), {"dates": True}),
    ]:
        wanted = TableOptions(drop_constant=True, **options)
        assert fit_column("t.csv", values, "a", wanted) is None
        assert fit_column("t.csv", values, "a", TableOptions(**options)) is not None
    assert fit_column("t.csv", column("", ""), "a", TableOptions(missing="median")) is None


@pytest.mark.parametrize("options", [{"dates": True}, {"encode": "auto"}])
def test_dates_are_days_since_the_first(options):
    dates = column("2020-03-01", "2020-02-28", "2020-02-28T12:00")
    code, values = coded(dates, **options)
    assert (code.kind, values) == ("date", [[2], [0], [0.5]])
    assert code.encode(column("2021-03-01"), "new.csv", 0).tolist() == [[367]]


def number_code(**options):
    return fit_column("t.csv", column("1", "3"), "a", TableOptions(**options))


def date_code(**options):
    dates = column("28.02.2020", "01.03.2020")
    return fit_column("t.csv", dates, "a", TableOptions(dates=True, **options))


@pytest.mark.parametrize(
    ("code", "cells", "said"),
    [
        (
            number_code(),
            ["7", "", ""],
            "must hold finite numbers, got an empty cell in row 12. Training had no gap there: "
            "fill the cell, or fit again with missing='median' (--missing median), which fills "
            "gaps of new rows, too.",
        ),
        (
            number_code(),
            ["7", "NA"],
            "must hold finite numbers, got 'NA' in row 12. Training had no gap there: fill the "
            "cell, or fit again with missing='median' (--missing median), which fills gaps of new "
            "rows, too.",
        ),
        (
            number_code(),
            ["7", "8", "old", "9", "new"],
            "must hold finite numbers, got 'old' in row 13. Write a number there.",
        ),
        (
            number_code(missing="median"),
            ["", "1e39"],
            "must hold finite numbers, got '1e39' in row 12. Write a number there, or leave the "
            "cell empty: gaps get the median of training.",
        ),
        (
            date_code(),
            ["02.03.2020", "2020-03-05"],
            "must hold dates like those of training, DD.MM.YYYY, got '2020-03-05' in row 12. "
            "Write it so.",
        ),
        (
            date_code(),
            ["02.03.2020", None],
            "must hold dates like those of training, DD.MM.YYYY, got an empty cell in row 12. "
            "Training had no gap there: fill the cell, or fit again with missing='median' "
            "(--missing median), which fills gaps of new rows, too.",
        ),
    ],
    ids=["gap", "NA", "text", "large", "date", "no date"],
)
def test_advice_on_a_cell_of_new_rows_can_be_followed_without_a_new_choice_of_columns(
    code, cells, said
):
    with pytest.raises(DataFormatError) as caught:
        code.encode(column(*cells), "new.csv", 10)
    assert str(caught.value) == f"column 'a' of new.csv {said}"


@pytest.mark.parametrize("place", [0, 1, 498, 499])
def test_the_first_cell_that_does_not_fit_is_found_wherever_it_is(place):
    cells = [str(k) for k in range(500)]
    cells[place] = cells[-1] = "none of them"
    with pytest.raises(DataFormatError, match=rf"got 'none of them' in row {place + 1}\."):
        number_code().encode(column(*cells), "new.csv", 0)


def test_dates_with_gaps_follow_the_rule_for_gaps():
    with pytest.raises(DataFormatError, match="--missing median"):
        coded(column("2020-03-01", ""), dates=True)
    assert coded(column("2020-03-01", "", "2020-03-03"), dates=True, missing="median")[1] == [
        [0],
        [1],
        [2],
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["61,333", "12,000"], r"'61,333'.*--decimal \.\) the comma parts thousands"),
        (["01/02/2020", "03/04/2020"], "day and month could change places"),
        (["2020-01-01", "2021-01-01"], "It holds dates.*--dates"),
    ],
)
@pytest.mark.parametrize("encode", ["error", "onehot"])
def test_what_has_two_readings_is_asked_about_and_never_one_hot_encoded(values, message, encode):
    if "dates=" in message or "--dates" in message:
        encode = "error"
    with pytest.raises(DataFormatError, match=message):
        coded(column(*values), encode=encode)


def test_a_code_is_the_same_after_a_trip_through_plain_values():
    for values, options in [
        (column("1", ""), {"missing": "indicator"}),
        (column("x", "y"), {"encode": "onehot"}),
        (column("2020-01-01"), {"dates": True}),
    ]:
        code = fit_column("t.csv", values, "a", TableOptions(**options))
        plain = {**vars(code), "values": list(code.values), "shares": list(code.shares)}
        assert ColumnCode.from_dict(plain) == code
