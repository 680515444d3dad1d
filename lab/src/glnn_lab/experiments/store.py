"""``results.jsonl``: one line a finished cell, safe against a kill at any moment."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from glnn.data.files import atomic_write, cannot_write
from glnn.data.lock import only_writer

FILE_NAME = "results.jsonl"
Record = dict[str, Any]


def to_line(record: Mapping[str, Any]) -> str:
    """Return a record as one line of JSON."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class ResultStore:
    """The results of a folder.

    A line is written at once and forced to the disk. A kill can only tear the last line; what
    cannot be read is dropped, and its cell runs again.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE_NAME

    def read(self) -> dict[str, Record]:
        """Return the finished cells by id; a cell that is there twice counts once.

        Examples
        --------
        >>> ResultStore("no such folder").read()
        {}
        """
        if not self.path.is_file():
            return {}
        found: dict[str, Record] = {}
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            record = _parsed(line)
            if record is not None:
                found.setdefault(record["id"], record)
        return found

    def append(self, record: Record) -> None:
        """Add one line, whole and on the disk when this returns."""
        line = (to_line(record) + "\n").encode()
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)

    def rewrite(self, records: Iterable[Record]) -> None:
        """Replace all lines at once: either the old file remains or the new one is there."""
        with atomic_write(self.path) as file:
            file.writelines(f"{to_line(record)}\n" for record in records)

    @contextmanager
    def only_writer(self) -> Iterator[None]:
        """Refuse a second run in the same folder; a killed run leaves nothing behind."""
        with only_writer(self.folder.resolve()):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise cannot_write(self.folder, error) from error
            yield


def in_order(found: Mapping[str, Record], ids: Sequence[str]) -> list[Record]:
    """Return the records of a grid in its order, then those of other grids as they came."""
    wanted = set(ids)
    first = [found[i] for i in ids if i in found]
    return first + [record for i, record in found.items() if i not in wanted]


def _parsed(line: str) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("id"), str) else None
