import numpy as np
import pytest

from glnn.data.columns import MAX_CATEGORIES, FeatureColumns
from glnn.data.rows import open_table
from glnn.exceptions import DataFormatError


def encoded(tmp_path, content, encode):
    path = tmp_path / "t.csv"
    path.write_text(content)
    table = open_table(path)
    columns = FeatureColumns(path, table.first_row, range(len(table.first_row)), encode)
    columns.learn_categories(table)
    (batch,) = table.batches()
    return columns.encode_batch(batch, 0).toarray().tolist(), columns.feature_names()


def test_numbers_stay_as_they_are(tmp_path):
    values, names = encoded(tmp_path, "a,b\n1,0.5\n-2,1e3\n", "error")
    assert values == [[1, 0.5], [-2, 1000]]
    assert names == ("a", "b")


def test_the_largest_single_precision_number_is_still_a_number(tmp_path):
    values, _ = encoded(tmp_path, "a\n3.4028235e+38\n", "error")
    assert values == [[np.finfo(np.float32).max]]


def test_each_value_of_a_text_column_gets_a_column_in_place(tmp_path):
    values, names = encoded(tmp_path, "a,city,b\n1,Rome,2\n3,Bern,4\n5,,6\n", "onehot")
    assert names == ("a", "city=Bern", "city=Rome", "b")
    assert values == [[1, 0, 1, 2], [3, 1, 0, 4], [5, 0, 0, 6]]


def test_a_column_with_one_word_among_numbers_is_text(tmp_path):
    values, names = encoded(tmp_path, "a\n1\nmany\n", "onehot")
    assert names == ("a=1", "a=many")
    assert values == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("tall", "'tall' in row 2.*--encode onehot"),
        ("", "an empty cell in row 2.*Fill in"),
        ("nan", "an empty cell in row 2"),
        ("inf", "'inf' in row 2"),
        ("1e39", "in row 2"),
    ],
)
def test_a_cell_that_is_no_number_is_named_with_its_row(tmp_path, cell, message):
    with pytest.raises(DataFormatError, match=f"column 'height' .*{message}"):
        encoded(tmp_path, f"height,b\n1,1\n{cell},2\n", "error")


def test_a_text_column_with_too_many_values_is_refused(tmp_path):
    rows = "".join(f"name {k}\n" for k in range(MAX_CATEGORIES + 1))
    with pytest.raises(DataFormatError, match=r"'who' .* at most 100 different values"):
        encoded(tmp_path, "who\n" + rows, "onehot")
