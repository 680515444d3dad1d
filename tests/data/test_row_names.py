import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from glnn.data import NodeData
from glnn.data.interop import to_pyg
from glnn.data.row_names import name_column, names_of_rows, row_number
from glnn.exceptions import InputError

NAMES = np.array(["w0", "w1", "w2", "w1"])


def test_names_are_those_by_which_fit_would_join_a_graph():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=["a", "b"])
    record = NodeData.from_arrays(np.eye(2), [0, 1], ids=np.array(["a", "b"]))
    for arguments in (
        {"x": frame},
        {"x": record},
        {"x": to_pyg(record)},
        {"x": np.eye(2), "ids": ["a", "b"]},
        {"x": frame.set_axis(["c", "d"]), "ids": pd.Series(["a", "b"])},
        {"x": sp.eye(2), "ids": np.array(["a", "b"], dtype=object)},
        {"x": None, "y": pd.Series([0, 1], index=["a", "b"])},
    ):
        assert names_of_rows(**arguments).tolist() == ["a", "b"]


def test_rows_that_are_only_counted_have_no_names():
    counted = pd.DataFrame({"x": [1.0, 2.0]})
    record = NodeData.from_arrays(np.eye(2), [0, 1])
    for x in (counted, np.eye(2), sp.eye(2), [[1.0], [2.0]], record):
        assert names_of_rows(x, y=pd.Series([0, 1], index=["a", "b"])) is None


def test_columns_named_like_ids_are_columns():
    frame = pd.DataFrame({"ids": [1.0, 2.0], "node_ids": [3.0, 4.0]})
    assert names_of_rows(frame) is None


@pytest.mark.parametrize("x", [np.eye(2), sp.eye(2), [[1.0], [2.0]], pd.DataFrame({"x": [1, 2]})])
def test_there_are_as_many_names_as_rows(x):
    with pytest.raises(InputError, match="ids must name each of the 2 rows, got 3 names"):
        names_of_rows(x, ids=["a", "b", "c"])


def test_an_index_of_whole_numbers_that_does_not_count_names_the_rows_by_numbers():
    frame = pd.DataFrame({"x": [1.0, 2.0]}, index=[7, 3])
    assert names_of_rows(frame).tolist() == [7, 3]
    assert row_number("3", names_of_rows(frame)) == 1
    assert row_number(3, names_of_rows(frame)) == 3  # a number is a row's number


@pytest.mark.parametrize(
    ("node", "names", "said"),
    [
        ("w1", None, r"number of a row, as the rows have no names, got 'w1'\. Name them"),
        ("w", NAMES, r"got 'w', which names none\."),
        ("w22", NAMES, r"which names none\. Did you mean 'w2'\?"),
        ("w1", NAMES, r"must name one row, got 'w1', the name of 2\. Give its number: 1, 3\."),
    ],
)
def test_a_name_that_is_not_that_of_one_row_is_refused_in_one_line(node, names, said):
    with pytest.raises(InputError, match=said) as caught:
        row_number(node, names)
    assert "\n" not in str(caught.value)


def test_a_table_of_rows_without_names_gets_no_column():
    assert name_column(None, np.array([0, 1])) == {}
    assert name_column(NAMES, np.array([2, 0]))["name"].tolist() == ["w2", "w0"]


@pytest.mark.parametrize("ids", [5, "ann", 2.5])
def test_what_is_no_list_of_names_is_refused(ids):
    with pytest.raises(InputError, match="ids must hold one name for each row"):
        names_of_rows(np.eye(3), ids=ids)
