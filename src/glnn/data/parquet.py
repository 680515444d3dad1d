"""Parquet files through pyarrow; what they declare is checked before anything is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd

from glnn.data.files import check_file, one_line, shown, shown_path
from glnn.data.optional import need
from glnn.exceptions import DataFormatError, GlnnError

SMALL_TABLE = 10_000_000
MAX_CELLS_PER_BYTE = 2_000

T = TypeVar("T")


def open_parquet(path: Path) -> Any:
    """Return the Parquet file of pyarrow, if what it declares is sensible; nothing is read yet."""
    check_file(path, max_bytes=2**35)
    return guarded(path, lambda: _checked_parquet(path))


def _checked_parquet(path: Path) -> Any:
    file = need("pyarrow.parquet").ParquetFile(path)
    n_rows, n_columns = file.metadata.num_rows, file.metadata.num_columns
    limit = max(SMALL_TABLE, MAX_CELLS_PER_BYTE * path.stat().st_size)
    if not file.schema_arrow.names or n_rows * n_columns > limit:
        raise DataFormatError(
            f"{shown_path(path)} must declare a sensible size, got {n_rows:,} rows and "
            f"{n_columns:,} columns. Nothing was read."
        )
    nested = need("pyarrow.types").is_nested
    for field in file.schema_arrow:
        if nested(field.type):
            raise DataFormatError(
                f"column {shown(field.name)} of {shown_path(path)} must hold one value a cell, "
                f"got {one_line(field.type)}."
            )
    return file


def parquet_frame(table: Any) -> pd.DataFrame:
    """Return a table of pyarrow as a frame; whole numbers with gaps stay whole numbers.

    Its cells are looked at first: text that is not UTF-8 would fail wherever it is used later.
    """
    kinds = need("pyarrow")
    table.validate(full=True)
    whole = {
        getattr(kinds, f"{sign}int{bits}")(): getattr(pd, f"{'U' if sign else ''}Int{bits}Dtype")()
        for sign in ("", "u")
        for bits in (8, 16, 32, 64)
    }
    frame: pd.DataFrame = table.to_pandas(types_mapper=whole.get, ignore_metadata=True)
    return frame


def guarded(path: Path, read: Callable[[], T]) -> T:
    """Run one step of reading; whatever pyarrow raises on a bad file becomes one clear line."""
    try:
        return read()
    except GlnnError:
        raise
    except Exception as error:  # pyarrow's own errors derive from many built-in ones
        raise DataFormatError(
            f"{shown_path(path)} must be a whole Parquet file, got: {one_line(error)}. "
            "Export it again."
        ) from error
