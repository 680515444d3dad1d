import pytest

from glnn.data.spreadsheet import safe_cell


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe(start):
    assert safe_cell(f"{start}cmd|' /C calc'!A0") == f"'{start}cmd|' /C calc'!A0"


@pytest.mark.parametrize("cell", ["-3", "+1e5", "-inf", "oak", "", "a=b", -0.5, 3, None])
def test_numbers_and_other_text_stay_as_they_are(cell):
    assert safe_cell(cell) is cell
