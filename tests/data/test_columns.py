import pandas as pd
import pytest

from glnn.data.columns import find_column, likely_label, plan_columns, text_columns
from glnn.data.options import TableOptions
from glnn.exceptions import DataFormatError, InputError


def plan(table, own_labels=True, **options):
    frame = pd.DataFrame(table)
    return plan_columns(
        "t.csv", list(frame), frame.__getitem__, TableOptions(**options), own_labels=own_labels
    )


def test_usual_names_are_found_and_all_others_are_features():
    found = plan({"id": ["a"], "x": [1], "label": ["u"], "split": ["train"], "y": [2]})
    assert (found.id, found.label, found.split) == ("id", "label", "split")
    assert found.features == ("x", "y")
    assert found.notes == ()


@pytest.mark.parametrize("name", ["customer_id", "ID", "customerId", "node uuid"])
def test_a_column_named_like_an_id_is_the_id_if_each_row_has_its_own(name):
    found = plan({"x": [1, 2], name: ["7", "8"]})
    assert (found.id, found.features) == (name, ("x",))
    assert found.notes == (f"ids: taken from the column {name!r}",)
    assert plan({"x": [1, 2], name: ["7", "7"]}).id is None


def test_a_second_column_of_ids_never_becomes_a_feature_unless_it_is_asked_for():
    table = {"id": ["a", "b"], "order_id": ["1", "2"], "x": [1, 2]}
    found = plan(table)
    assert found.features == ("x",)
    assert found.notes == ("features: left out 'order_id', another id in every row",)
    assert plan(table, features=("*",)).features == ("order_id", "x")


def test_words_like_acid_and_grid_are_no_ids():
    assert plan({"acid": [1, 2], "grid": [3, 4]}).features == ("acid", "grid")


def test_patterns_choose_and_leave_out_columns():
    table = {"id": ["a"], "x1": [1], "x2": [2], "age": [3], "label": ["u"]}
    assert plan(table, features=("x*",)).features == ("x1", "x2")
    assert plan(table, drop=("x?",)).features == ("age",)
    assert plan(table, features=("age", "x*"), drop=("x1",)).features == ("x2", "age")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ("agee",)}, "'agee', which fits none.*Did you mean 'age'"),
        ({"drop": ("z*",)}, r"'z\*', which fits none"),
        ({"drop": ("*",)}, "feature column"),
        ({"id_column": "idd"}, r"got 'idd'\. Its columns are 'id', 'age', 'label'"),
        ({"label_column": "id"}, "two columns"),
    ],
)
def test_columns_that_cannot_be_are_refused(options, message):
    table = {"id": ["a"], "age": [3], "label": ["u"]}
    with pytest.raises((InputError, DataFormatError), match=message):
        plan(table, **options)


def test_labels_come_from_one_place():
    with pytest.raises(InputError, match="one file"):
        plan({"x": [1], "label": ["u"]}, own_labels=False)
    assert plan({"x": [1]}, own_labels=False).label is None


def test_a_split_of_other_words_is_a_feature():
    assert plan({"x": [1, 2], "split": ["train", "left"]}).split is None


def test_a_usual_column_that_is_absent_is_no_error():
    assert find_column("t.csv", ["x"], None, "id", "the id column") is None
    assert find_column("t.csv", ["id", "x"], None, "id", "the id column") == "id"


def test_ids_and_labels_are_read_as_text():
    names = ["name", "x", "order_id", "job", "label"]
    options = TableOptions(id_column="name", label_column="job")
    assert text_columns(names, options) == {"name", "order_id", "job", "label"}


@pytest.mark.parametrize(
    ("table", "likely"),
    [
        ({"x": [1, 2, 3, 4, 5], "status": ["a", "b", "", "a", "b"]}, "status"),
        ({"x": [1.5, 2.5, 3.5, 4.5], "target": [0, 1, 0, 1]}, "target"),
        ({"city": ["r", "b", "r", "b"], "job_status": ["a", "b", "a", "b"]}, "job_status"),
        ({"x": [1, 2, 3, 4], "user_id": ["a", "a", "b", "b"]}, None),
        ({"x": [1.5, 2.5, 3.5, 4.5], "name": ["a", "b", "c", "d"]}, None),
    ],
)
def test_the_column_most_like_a_label_is_offered(table, likely):
    frame = pd.DataFrame(table)
    assert likely_label(list(frame), frame.__getitem__) == likely
