"""Excel workbooks: a zip of XML, checked as such before openpyxl sees it."""

import warnings
from pathlib import Path

import pandas as pd

from glnn.data.files import check_file, parsing, shown_path
from glnn.data.optional import need
from glnn.data.table_text import column_names
from glnn.data.xml_guard import refuse_declarations
from glnn.data.zip_list import opened_zip
from glnn.exceptions import DataFormatError

MAX_BYTES = 2**30
MAX_EXPANSION = 250


def read_workbook(path: Path, header: bool) -> pd.DataFrame:
    """Return the table on the first sheet."""
    frame = sheet_cells(path)
    if header and len(frame):
        first = [None if pd.isna(cell) else cell for cell in frame.iloc[0]]
        frame = frame.iloc[1:].set_axis(list(column_names(path, first)), axis=1)
    else:
        frame.columns = frame.columns.map(str)
    return frame.reset_index(drop=True).infer_objects()


def sheet_cells(path: Path, n_rows: int | None = None) -> pd.DataFrame:
    """Return the cells of the first sheet, or of its first rows."""
    check_file(path, max_bytes=MAX_BYTES)
    need("openpyxl")
    with parsing(path, "Excel"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # openpyxl speaks of styles and extensions
        with opened_zip(path) as archive:
            unpacked = sum(member.file_size for member in archive.infolist())
            if unpacked > max(MAX_BYTES // 4, MAX_EXPANSION * path.stat().st_size):
                raise DataFormatError(
                    f"{shown_path(path)} must unpack to a sensible size, got {unpacked:,} bytes."
                )
            for member in archive.infolist():
                if member.filename.endswith((".xml", ".rels")):
                    with archive.open(member) as file:
                        refuse_declarations(file, "an Excel file")
        cells = pd.read_excel(path, header=None, nrows=n_rows, keep_default_na=True)
    if not len(cells):
        raise DataFormatError(f"{shown_path(path)} must have a first sheet with rows, got none.")
    return cells
