"""``results.jsonl``: one line a finished cell, safe against a kill at any moment."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glnn.data.files import atomic_write, cannot_write, only_writer
from glnn_lab.experiments.aggregate import Paired, Summary, by_seed, paired
from glnn_lab.experiments.blocks import Block, Entry
from glnn_lab.experiments.methods import METHODS
from glnn_lab.experiments.published import ROBUSTNESS, TABLE2, published

# --- store: ``results.jsonl``: one line a finished cell, safe against a kill at any moment

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


# --- results: The records of a block, looked up by method, data set and value on its axis

Value = float | int | None
REFERENCE = "glnn"
"""The method that all others of a block are compared with, if it is there."""
_RATE_IN_WORDS = 0.01


@dataclass(frozen=True, eq=False)
class BlockResults:
    """A block with what came out; accuracies are in percent."""

    block: Block
    entries: Sequence[Entry]
    by_id: Mapping[str, Mapping[str, Any]]

    @property
    def datasets(self) -> list[str]:
        """Data sets in the order of the entries."""
        return list(dict.fromkeys(entry.dataset for entry in self.entries))

    @property
    def methods(self) -> list[str]:
        """Methods in the order of the entries."""
        order = {name: k for k, name in enumerate(METHODS)}
        return sorted({entry.method for entry in self.entries}, key=order.__getitem__)

    @property
    def values(self) -> list[Value]:
        """Values along the axis; one ``None`` without an axis."""
        return list(dict.fromkeys(entry.value for entry in self.entries))

    def records(self, method: str, dataset: str, value: Value = None) -> list[Mapping[str, Any]]:
        """Return the finished runs behind one number."""
        cells = (
            cell
            for entry in self.entries
            if (entry.method, entry.dataset, entry.value) == (method, dataset, value)
            for cell in entry.cells
        )
        found = (self.by_id.get(cell.id) for cell in cells)
        return [record for record in found if record is not None and "error" not in record]

    def all_records(self) -> list[Mapping[str, Any]]:
        """Return the finished runs of the block, each once."""
        ids = dict.fromkeys(cell.id for entry in self.entries for cell in entry.cells)
        found = (self.by_id.get(i) for i in ids)
        return [record for record in found if record is not None and "error" not in record]

    def summary(
        self, method: str, dataset: str, value: Value = None, key: str = "accuracy"
    ) -> Summary | None:
        """Summarise one number over its seeds; accuracies in percent."""
        scale = 100 if key == "accuracy" else 1
        found = [scale * v for v in by_seed(self.records(method, dataset, value), key).values()]
        return Summary.of(found) if found else None

    def published(self, method: str, dataset: str, value: Value = None) -> float | None:
        """Return the paper's number beside ours, or ``None``."""
        paper, row = self.block.paper, METHODS[method].published_as
        if paper == TABLE2:
            return published(paper, dataset, str(float(value or 0)))
        if paper == ROBUSTNESS:
            return published(paper, row, dataset) if value == _RATE_IN_WORDS else None
        return published(paper, row, dataset)

    def against(self, method: str, dataset: str, value: Value = None) -> Paired | None:
        """Compare the reference with a method on the same seeds, in percentage points."""
        ours, theirs = (
            {s: 100 * v for s, v in by_seed(self.records(m, dataset, value)).items()}
            for m in (REFERENCE, method)
        )
        return paired(ours, theirs)

    def errors(self) -> list[str]:
        """Return what failed, one line a method and data set."""
        lines: dict[str, None] = {}
        for entry in self.entries:
            for cell in entry.cells:
                record = self.by_id.get(cell.id)
                if record is not None and "error" in record:
                    lines[f"{entry.method} on {entry.dataset}: {record['error']}"] = None
        return list(lines)


def block_results(
    chosen: Sequence[tuple[Block, Sequence[Entry]]], records: Iterable[Mapping[str, Any]]
) -> list[BlockResults]:
    """Join the chosen blocks with the records of a grid."""
    by_id = {record["id"]: record for record in records}
    return [BlockResults(block, entries, by_id) for block, entries in chosen]
