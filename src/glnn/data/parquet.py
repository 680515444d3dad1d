"""Parquet tables, read through pyarrow in batches."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glnn.data.files import atomic_write, check_file, one_line, shown, shown_path
from glnn.data.optional import need
from glnn.data.rows import BATCH_CELLS, Column, TextTable
from glnn.exceptions import DataFormatError, GlnnError

MAX_CELLS_PER_BYTE = 2_000
SMALL_TABLE = 10_000_000


class ParquetTable(TextTable):
    """A Parquet file behind the same three methods as a text table."""

    def __init__(self, path: Path) -> None:
        self.path = check_file(path, max_bytes=2**35)
        self._file = _guarded(path, lambda: need("pyarrow.parquet").ParquetFile(path))
        n_rows, n_columns = self._file.metadata.num_rows, self._file.metadata.num_columns
        self.first_row = tuple(str(name) for name in self._file.schema_arrow.names)
        cells = n_rows * n_columns
        if not self.first_row or cells > max(SMALL_TABLE, MAX_CELLS_PER_BYTE * path.stat().st_size):
            raise DataFormatError(
                f"{shown_path(path)} must declare a sensible size, got {n_rows:,} rows and "
                f"{n_columns:,} columns. Nothing was read."
            )

    def batches(self, *, skip_first: bool = True) -> Iterator[list[Column]]:
        """Yield the columns of the next rows; a Parquet file has no first line to skip."""
        size = max(1, BATCH_CELLS // len(self.first_row))
        batches = _guarded(self.path, lambda: self._file.iter_batches(batch_size=size))
        while (batch := _guarded(self.path, lambda: next(batches, None))) is not None:
            yield [self._column(name, array) for name, array in zip(self.first_row, batch.columns)]

    def _column(self, name: str, array: Any) -> Column:
        types = need("pyarrow.types")
        kind = array.type
        if types.is_integer(kind) and not array.null_count:
            numbers = _guarded(self.path, lambda: array.to_numpy(zero_copy_only=False))
            exact = numbers.size == 0 or max(abs(int(numbers.min())), abs(int(numbers.max())))
            if exact >= 2**53:
                return [str(number) for number in numbers]
            return np.asarray(numbers, dtype=np.float64)
        if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
            values: np.ndarray = _guarded(self.path, lambda: _float64(array))
            return values
        if types.is_nested(kind):
            raise DataFormatError(
                f"column {shown(name)} of {shown_path(self.path)} must hold one value a cell, "
                f"got {one_line(kind)}."
            )
        cells = _guarded(self.path, lambda: array.cast("string").to_pylist())
        return ["" if cell is None else cell for cell in cells]


def _float64(array: Any) -> np.ndarray:
    return np.asarray(array.cast("float64").to_numpy(zero_copy_only=False), dtype=np.float64)


def _guarded(path: Path, read: Any) -> Any:
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


def write_parquet(path: Path, columns: dict[str, Sequence[str] | np.ndarray]) -> None:
    """Write named columns of numbers or text, whole or not at all."""
    table = need("pyarrow").table(dict(columns))
    with atomic_write(path, "wb") as file:
        need("pyarrow.parquet").write_table(table, file, write_page_checksum=True)
