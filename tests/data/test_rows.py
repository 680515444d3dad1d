import numpy as np
import pytest

from glnn.data import rows
from glnn.exceptions import DataFormatError, InputError


def table(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return rows.open_table(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "id,x\na,1\nb,2\n"),
        ("a.csv", "id;x\r\na;1\r\nb;2"),
        ("a.csv", "id\tx\na\t1\n\n\nb\t2\n"),
        ("a.tsv", "id\tx\na\t1\nb\t2\n"),
        ("a.csv", b"\xef\xbb\xbfid,x\ra,1\rb,2\r"),
    ],
)
def test_delimiters_line_ends_and_marks_of_spreadsheets_are_understood(tmp_path, name, content):
    opened = table(tmp_path, content, name)
    assert rows.column_names(opened) == ("id", "x")
    assert list(opened.batches()) == [[("a", "b"), ("1", "2")]]


def test_quoted_cells_may_hold_anything(tmp_path):
    opened = table(tmp_path, 'id,x\n"a,""b""\nc",1\n')
    assert list(opened.batches()) == [[('a,"b"\nc',), ("1",)]]


def test_batches_together_are_the_file(tmp_path):
    n_rows = 3 * rows.BATCH_CELLS // 2
    opened = table(tmp_path, "a,b\n" + "".join(f"{k},0\n" for k in range(n_rows)))
    batches = list(opened.batches())
    assert len(batches) > 1
    assert [int(cell) for batch in batches for cell in batch[0]] == list(range(n_rows))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "column names"),
        ("\n\n", "column names"),
        ("a,a\n1,2\n", "'a' twice"),
        ("a,,c\n1,2,3\n", "column 2"),
        ("a,b\n1\n", "2 cells in every line, got 1 in line 2"),
        ('a,b\n"1,2\n', "CSV"),
        (b"a,b\n\xff,1\n", "UTF-8"),
        ("a,b\n" + "x" * 200_000 + ",1\n", "CSV"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, content, message):
    with pytest.raises(DataFormatError, match=message):
        opened = table(tmp_path, content)
        rows.column_names(opened)
        list(opened.batches())


def test_a_line_without_end_is_refused_before_it_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "MAX_LINE", 100)
    with pytest.raises(DataFormatError, match="at most 100 characters"):
        table(tmp_path, "a," * 1000)


def test_absurdly_many_columns_are_refused(tmp_path):
    with pytest.raises(DataFormatError, match="columns"):
        table(tmp_path, "a," * (rows.MAX_COLUMNS + 1) + "\n")


def test_a_first_column_without_a_name_holds_ids(tmp_path):
    assert rows.column_names(table(tmp_path, ",x\na,1\n")) == ("id", "x")


def test_a_column_that_is_not_there_is_answered_with_those_that_are(tmp_path):
    with pytest.raises(InputError, match=r"got 'idd'\. Its columns are 'id', 'x'"):
        rows.find_column(tmp_path, ["id", "x"], "idd", "id", "the id column")
    assert rows.find_column(tmp_path, ["id", "x"], None, "id", "the id column") == 0
    assert rows.find_column(tmp_path, ["x"], None, "id", "the id column") is None


@pytest.mark.parametrize("cell", ["1_000", "１", "two", "", "1,5", "0x1f", "2020-01-01"])
def test_cells_that_are_no_numbers_are_not_taken_for_such(cell):
    assert rows.as_numbers(["1", cell]) is None


def test_numbers_of_a_typed_file_pass_through():
    numbers = np.array([1.0, 2.5])
    assert rows.as_numbers(numbers) is numbers
    assert rows.as_text(np.array([3.0, -0.5, np.nan, 1e300])) == ["3", "-0.5", "", "1e+300"]
