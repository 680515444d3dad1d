import pandas as pd
import pytest

from glnn.data.table_file import first_row, names_of, read_frame
from glnn.exceptions import DataFormatError, InputError


def put(tmp_path, content, name="t.csv"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet", ".xlsx"])
def test_the_same_table_in_every_format(tmp_path, suffix):
    pytest.importorskip("pyarrow")
    pytest.importorskip("openpyxl")
    frame, path = pd.DataFrame({"id": ["a", "b"], "x": [1.5, 2.0]}), tmp_path / f"t{suffix}"
    write = {".parquet": frame.to_parquet, ".xlsx": frame.to_excel}.get(suffix, frame.to_csv)
    write(path, index=False, **({"sep": "\t"} if suffix == ".tsv" else {}))
    assert read_frame(path).to_dict("list") == frame.to_dict("list")
    assert first_row(path) == ("id", "x")


def test_names_are_text():
    assert names_of(pd.DataFrame({0: [1], "a": [2]})) == ["0", "a"]


def test_without_a_header_columns_are_numbered_and_the_first_line_counts(tmp_path):
    path = put(tmp_path, "a,1\nb,2\n")
    assert read_frame(path, header=False).to_dict("list") == {"0": ["a", "b"], "1": [1, 2]}
    assert first_row(path) == ("a", "1")


@pytest.mark.parametrize(
    ("name", "words"), [("t.parquet", "whole Parquet file"), ("t.xlsx", "whole Excel file")]
)
def test_what_is_no_such_file_is_refused(tmp_path, name, words):
    with pytest.raises(DataFormatError, match=words):
        read_frame(put(tmp_path, b"id,x\n1,2\n", name))
    with pytest.raises(InputError, match="existing file"):
        read_frame(tmp_path / f"none{name}")


def test_a_file_that_is_no_table_is_told_by_its_suffix(tmp_path):
    with pytest.raises(DataFormatError, match=r"must be a table .* got a \.npz file"):
        read_frame(put(tmp_path, b"\x93NUMPY", "t.npz"))
