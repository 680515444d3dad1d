"""Records of finished cells in ``results.jsonl``, and their lookup by block.

Each finished cell is one line. A process that is killed can only damage the last line.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from glnn.data.files import atomic_write, lock_folder, write_error
from glnn_lab.experiments.aggregate import Paired, Summary, by_seed, compare_paired
from glnn_lab.experiments.blocks import Block, Entry
from glnn_lab.experiments.methods import METHODS
from glnn_lab.experiments.published import ROBUSTNESS, TABLE2, published_value

FILE_NAME = "results.jsonl"
Record = dict[str, Any]


def format_line(record: Mapping[str, Any]) -> str:
    """Return a record as one line of JSON."""
    return json.dumps(record, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


class ResultStore:
    """The records of a folder.

    Each line is written and synced at once. Lines that cannot be read are dropped, and their cells
    run again.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE_NAME

    def read(self) -> dict[str, Record]:
        """Return the records of the finished cells by id; duplicates are dropped.

        Examples
        --------
        >>> ResultStore("no such folder").read()
        {}
        """
        if not self.path.is_file():
            return {}
        found: dict[str, Record] = {}
        for line in self.path.read_text(encoding="utf-8", errors="replace").splitlines():
            record = _parse_line(line)
            if record is not None:
                found.setdefault(record["id"], record)
        return found

    def append(self, record: Record) -> None:
        """Append one line and sync it to the disk."""
        line = (format_line(record) + "\n").encode()
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(handle, line)
            os.fsync(handle)
        finally:
            os.close(handle)

    def rewrite(self, records: Iterable[Record]) -> None:
        """Replace all lines atomically."""
        with atomic_write(self.path) as file:
            file.writelines(f"{format_line(record)}\n" for record in records)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the folder against a second run; the lock of a killed process is released."""
        with lock_folder(self.folder.resolve()):
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise write_error(self.folder, error) from error
            yield


def sort_records(found: Mapping[str, Record], ids: Sequence[str]) -> list[Record]:
    """Return the records of a grid in its order, then those of other grids in file order."""
    wanted = set(ids)
    first = [found[i] for i in ids if i in found]
    return first + [record for i, record in found.items() if i not in wanted]


def _parse_line(line: str) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("id"), str) else None


# Results of a block

Value = float | int | None
REFERENCE = "glnn"  # the method that all others of a block are compared with
_RATE_IN_WORDS = 0.01


@dataclass(frozen=True, eq=False)
class BlockResults:
    """A block with its records; accuracies are in percent."""

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
        """Return the finished runs of one number."""
        cells = (
            cell
            for entry in self.entries
            if (entry.method, entry.dataset, entry.value) == (method, dataset, value)
            for cell in entry.cells
        )
        found = (self.by_id.get(cell.id) for cell in cells)
        return [record for record in found if record is not None and "error" not in record]

    def all_records(self) -> list[Mapping[str, Any]]:
        """Return all finished runs of the block, each once."""
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

    def published_value(self, method: str, dataset: str, value: Value = None) -> float | None:
        """Return the paper's number, or ``None``."""
        paper, row = self.block.paper, METHODS[method].published_as
        if paper == TABLE2:
            return published_value(paper, dataset, str(float(value or 0)))
        if paper == ROBUSTNESS:
            return published_value(paper, row, dataset) if value == _RATE_IN_WORDS else None
        return published_value(paper, row, dataset)

    def compare_with(self, method: str, dataset: str, value: Value = None) -> Paired | None:
        """Compare the reference with a method on the same seeds, in percentage points."""
        ours, theirs = (
            {s: 100 * v for s, v in by_seed(self.records(m, dataset, value)).items()}
            for m in (REFERENCE, method)
        )
        return compare_paired(ours, theirs)

    def errors(self) -> list[str]:
        """Return the errors, one line per method and data set."""
        lines: dict[str, None] = {}
        for entry in self.entries:
            for cell in entry.cells:
                record = self.by_id.get(cell.id)
                if record is not None and "error" in record:
                    lines[f"{entry.method} on {entry.dataset}: {record['error']}"] = None
        return list(lines)


def join_results(
    chosen: Sequence[tuple[Block, Sequence[Entry]]], records: Iterable[Mapping[str, Any]]
) -> list[BlockResults]:
    """Combine the chosen blocks with the records of a grid."""
    by_id = {record["id"]: record for record in records}
    return [BlockResults(block, entries, by_id) for block, entries in chosen]
