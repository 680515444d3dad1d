"""Append-only record of what happened in each epoch; JSON lines in and out."""

import json
import math
from collections.abc import Iterator
from pathlib import Path

from glnn.exceptions import DataFormatError

Record = dict[str, float | int | str]


class History:
    """The named numbers of each epoch, in order.

    Examples
    --------
    >>> history = History()
    >>> history.append({"epoch": 0, "loss": 1.5})
    >>> history.column("loss")
    [1.5]
    """

    def __init__(self) -> None:
        self._records: list[Record] = []

    def append(self, record: Record) -> None:
        """Add the record of one epoch."""
        self._records.append(dict(record))

    def extend(self, other: "History") -> None:
        """Add all records of another history."""
        for record in other:
            self.append(record)

    def column(self, name: str) -> list[float | int | str | None]:
        """Return one named number of every epoch, ``None`` where it was not recorded."""
        return [record.get(name) for record in self._records]

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)

    def __getitem__(self, index: int) -> Record:
        return self._records[index]

    def to_jsonl(self) -> str:
        """Return one line of JSON for each epoch; numbers that are not finite become null."""
        return "".join(json.dumps(_finite(record)) + "\n" for record in self._records)

    @classmethod
    def read(cls, path: Path) -> "History":
        """Read a file of JSON lines; a null becomes NaN."""
        history = cls()
        for number, line in enumerate(path.read_bytes().splitlines(), start=1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                raise DataFormatError(
                    f"{path.name} must hold one JSON object a line; line {number} is not JSON."
                ) from None
            if not isinstance(record, dict):
                raise DataFormatError(f"{path.name} line {number} must be a JSON object.")
            history.append({k: math.nan if v is None else v for k, v in record.items()})
        return history


def _finite(record: Record) -> dict[str, float | int | str | None]:
    return {
        key: None if isinstance(value, float) and not math.isfinite(value) else value
        for key, value in record.items()
    }
