import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data import read_data, read_tables, write_data
from glnn.data.table_text import TableOptions
from glnn.data.tables import (
    guess_label_column,
    plan_columns,
)
from glnn.exceptions import DataFormatError, InputError

# Tables

SETTINGS = settings(settings.get_profile("records"))

PEOPLE = "id,age,height\nann,30,1.6\nbob,40,1.8\ncy,50,1.7\n"


VISITS = """patient,day,age,gap,label
007,2020-01-02,30,x,yes
007,2020-01-05,31,,no
12,2019-12-31,50,z,
"""


def put(tmp_path, **files):
    for name, content in files.items():
        (tmp_path / f"{name}.csv").write_text(content)
    return [tmp_path / f"{name}.csv" for name in files]


def test_unknown_ids_among_labels_are_reported_too(tmp_path):
    features, labels = put(tmp_path, f=PEOPLE, l="id,label\nbob,x\nzoe,y\n")
    with pytest.raises(InputError, match=r"1 unknown id \('zoe'\)"):
        read_tables(features, labels)
    data, report = read_tables(features, labels, on_unknown="drop")
    assert data.class_names == ("x",)
    assert "labels: left out 1 unknown id ('zoe')" in report.lines()


def test_groups_and_times_are_kept_and_are_no_features(tmp_path):
    (path,) = put(tmp_path, visits=VISITS)
    named = {"group_column": "patient", "time_column": "day", "drop": ["gap"]}
    data, report = read_tables(path, **named)
    assert data.feature_names == ("age",)
    assert report.groups.tolist() == ["007", "007", "12"]
    assert (report.times - report.times[0]).tolist() == [0, 3, -2]
    by_number = read_tables(path, time_column="age", drop=["gap", "d*"])
    assert by_number[1].times.tolist() == [30, 31, 50] and by_number[1].groups is None


@pytest.mark.parametrize(
    ("files", "options", "error", "message"),
    [
        ({"f": "id,label\na,b\n"}, {}, DataFormatError, "feature column"),
        ({"f": PEOPLE}, {"id_column": "name"}, InputError, "got 'name'"),
        ({"f": PEOPLE}, {"label_column": "id"}, InputError, "different columns"),
        ({"f": VISITS}, {"group_column": "label"}, InputError, "different columns"),
        (
            {"f": VISITS},
            {"time_column": "gap", "features": ["age"]},
            DataFormatError,
            "numbers or dates",
        ),
        ({"f": VISITS}, {"time_column": "dya"}, InputError, "Did you mean 'day'"),
        ({"f": PEOPLE, "l": "id,label\nbob,x\nbob,y\n"}, {}, DataFormatError, "'bob' once"),
        ({"f": PEOPLE, "l": "id,a,b\nbob,x,y\n"}, {}, InputError, "--label"),
        ({"f": "id,x,label\na,1,u\n", "l": "id,label\na,x\n"}, {}, InputError, "one file"),
    ],
)
def test_bad_tables_are_refused_in_one_line(tmp_path, files, options, error, message):
    with pytest.raises(error, match=message) as caught:
        read_tables(*put(tmp_path, **files), **options)
    assert "\n" not in str(caught.value)


@SETTINGS
@given(st.data())
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_write_then_read_is_the_identity(records, any_text, tmp_path_factory, suffix, data):
    record = records(data, text=any_text)
    path = tmp_path_factory.mktemp("table") / f"record{suffix}"
    write_data(record, path)
    assert read_data(path, exact_labels=True, features=["*"]).equals(record)


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_mutated_tables_give_a_record_or_one_clear_line(small, tmp_path, survives_mutation, suffix):
    path = tmp_path / f"small{suffix}"
    write_data(small, path)
    survives_mutation(lambda: read_data(path), [path, tmp_path / f"small.edges{suffix}"])


def test_mutated_text_columns_do_too(tmp_path, survives_mutation):
    features, labels = put(
        tmp_path, f="id,city,x\na,Rome,1\nb,Bern,2\nc,,3\n", l="id,label\na,yes\nb,no\n"
    )
    survives_mutation(
        lambda: read_tables(features, labels, on_unknown="drop", encode="onehot"),
        [features, labels],
    )


# Columns


def plan(table, own_labels=True, **options):
    frame = pd.DataFrame(table)
    return plan_columns(
        "t.csv", list(frame), frame.__getitem__, TableOptions(**options), own_labels=own_labels
    )


@pytest.mark.parametrize("name", ["customer_id", "ID", "customerId", "node uuid"])
def test_a_column_named_like_an_id_is_the_id_if_each_row_has_its_own(name):
    found = plan({"x": [1, 2], name: ["7", "8"]})
    assert (found.id, found.features) == (name, ("x",))
    assert plan({"x": [1, 2], name: ["7", "7"]}).id is None


def test_a_second_column_of_ids_never_becomes_a_feature_unless_it_is_asked_for(tmp_path):
    (path,) = put(tmp_path, f="id,order_id,x\na,1,1\nb,2,2\n")
    assert read_data(path).feature_names == ("x",)
    assert read_data(path, features=["*"]).feature_names == ("order_id", "x")
    assert read_data(path, kinds={"order_id": "number"}).feature_names == ("order_id", "x")


def test_patterns_choose_and_leave_out_columns():
    table = {"id": ["a"], "x1": [1], "x2": [2], "age": [3], "label": ["u"]}
    assert plan(table, features=("x*",)).features == ("x1", "x2")
    assert plan(table, drop=("x?",)).features == ("age",)
    assert plan(table, features=("age", "x*"), drop=("x1",)).features == ("x2", "age")


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
    assert guess_label_column(list(frame), frame.__getitem__) == likely
