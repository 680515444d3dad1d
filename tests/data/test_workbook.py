import zipfile

import numpy as np
import pandas as pd
import pytest

from glnn.data import workbook
from glnn.data.table_file import first_row, read_frame
from glnn.exceptions import DataFormatError

pytest.importorskip("openpyxl")


def test_a_sheet_of_excel_is_a_table(tmp_path):
    path = tmp_path / "t.xlsx"
    frame = pd.DataFrame({"id": ["a", "b"], "x": [1.5, None], "n": [1, 2]})
    frame.assign(day=pd.Timestamp("2020-01-02")).to_excel(path, index=False)
    read = read_frame(path)
    assert first_row(path) == ("id", "x", "n", "day")
    assert read["n"].tolist() == [1, 2]
    assert np.array_equal(read["x"], [1.5, np.nan], equal_nan=True)
    assert read["day"].dtype.kind == "M"


@pytest.mark.parametrize("member", ["xl/workbook.xml", "xl/worksheets/sheet1.xml"])
def test_entities_inside_a_workbook_are_refused(tmp_path, member):
    pd.DataFrame({"x": [1]}).to_excel(tmp_path / "good.xlsx", index=False)
    bad = tmp_path / "bad.xlsx"
    with zipfile.ZipFile(tmp_path / "good.xlsx") as old, zipfile.ZipFile(bad, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == member:
                content = b'<!DOCTYPE x [<!ENTITY a "aaaa">]>' + content.partition(b"?>")[2]
            new.writestr(name, content)
    with pytest.raises(DataFormatError, match="DOCTYPE"):
        read_frame(bad)


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "bomb.xlsx"
    monkeypatch.setattr(workbook, "MAX_BYTES", 2**20)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/workbook.xml", b"0" * 2**23)
    with pytest.raises(DataFormatError, match="sensible size"):
        read_frame(path)


def test_a_large_workbook_may_unpack_to_so_many_times_its_size(tmp_path, monkeypatch):
    path = tmp_path / "t.xlsx"
    pd.DataFrame({"x": np.arange(500)}).to_excel(path, index=False)
    monkeypatch.setattr(workbook, "MAX_BYTES", path.stat().st_size)  # a quarter is no limit
    assert len(read_frame(path)) == 500
    monkeypatch.setattr(workbook, "MAX_EXPANSION", 1)
    with pytest.raises(DataFormatError, match="sensible size"):
        read_frame(path)
