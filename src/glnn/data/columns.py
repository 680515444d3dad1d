"""Feature columns of a table: numbers as they are, text refused or one-hot encoded."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from glnn.data.arrays import to_float32
from glnn.data.files import shown, shown_path
from glnn.data.rows import Column, TextTable, as_numbers, as_text
from glnn.exceptions import DataFormatError

MAX_CATEGORIES = 100
"""A text column with more different values than this is not a category."""


class FeatureColumns:
    """How the feature columns of one table become columns of numbers.

    Parameters
    ----------
    path
        The file, for messages.
    names
        All column names.
    places
        Which of them are features.
    encode
        ``"error"`` refuses a column with text, ``"onehot"`` gives each of its values a column
        of 0 and 1 named ``column=value``; an empty cell of such a column is 0 everywhere.
    """

    def __init__(self, path: Path, names: Sequence[str], places: Sequence[int], encode: str):
        self.path, self.names, self.places, self.encode = path, names, places, encode
        self.categories: dict[int, dict[str, int]] = {}

    def learn_categories(self, table: TextTable) -> None:
        """Find the text columns and their values, in one pass over the file."""
        if self.encode == "error":
            return
        values: dict[int, set[str]] = {place: set() for place in self.places}
        text: set[int] = set()
        for batch in table.batches():
            for place in self.places:
                if place not in text and as_numbers(batch[place]) is None:
                    text.add(place)
        for batch in table.batches() if text else ():
            for place in text:
                values[place].update(as_text(batch[place]))
                self._check_count(place, values[place])
        for place in text:
            found = sorted(value for value in values[place] if value)
            self.categories[place] = {value: k for k, value in enumerate(found)}

    def _check_count(self, place: int, values: set[str]) -> None:
        if len(values - {""}) > MAX_CATEGORIES:
            raise DataFormatError(
                f"column {shown(self.names[place])} of {shown_path(self.path)} must have at most "
                f"{MAX_CATEGORIES} different values to be encoded, got more. Name it as the id "
                "column, or remove it."
            )

    def feature_names(self) -> tuple[str, ...]:
        """Return the names of the encoded columns, in the order of the table's."""
        names: list[str] = []
        for place in self.places:
            if place in self.categories:
                names += [f"{self.names[place]}={value}" for value in self.categories[place]]
            else:
                names.append(self.names[place])
        return tuple(names)

    def encode_batch(self, batch: Sequence[Column], first_row: int) -> sp.csr_matrix:
        """Return the features of some rows; ``first_row`` is their place, for messages."""
        blocks = [self._encode(place, batch[place], first_row) for place in self.places]
        return sp.csr_matrix(np.concatenate(blocks, axis=1))

    def _encode(self, place: int, column: Column, first_row: int) -> np.ndarray:
        if place in self.categories:
            known = self.categories[place]
            block = np.zeros((len(column), len(known)), dtype=np.float32)
            for row, value in enumerate(as_text(column)):
                if value:
                    block[row, known[value]] = 1
            return block
        numbers = as_numbers(column)
        if numbers is None:
            raise self._not_a_number(place, as_text(column), first_row)
        narrow = to_float32(numbers)
        bad = np.flatnonzero(~np.isfinite(narrow))
        if bad.size:
            raise self._bad_cell(place, first_row + int(bad[0]), str(numbers[bad[0]]))
        return narrow[:, None]

    def _not_a_number(self, place: int, cells: list[str], first_row: int) -> DataFormatError:
        row = next(k for k, cell in enumerate(cells) if as_numbers([cell]) is None)
        return self._bad_cell(place, first_row + row, cells[row])

    def _bad_cell(self, place: int, row: int, cell: str) -> DataFormatError:
        blank = not cell.strip() or cell == "nan"
        advice = (
            "Fill in or remove the missing values."
            if blank
            else "Encode it with encode='onehot' (--encode onehot), name it as the id or label "
            "column, or remove it."
        )
        return DataFormatError(
            f"column {shown(self.names[place])} of {shown_path(self.path)} must hold finite "
            f"numbers, got {'an empty cell' if blank else shown(cell)} in row {row + 1}. {advice}"
        )
