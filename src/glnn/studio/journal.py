"""The journal of a labelling session, and the labels that its acts amount to.

It has one line of JSON for each act, appended and never changed. A line is forced to the disk
before the act is acknowledged. It ends with a checksum of itself and of the line before, so that a
line that is missing or was changed is noticed. A last line that a crash has cut short was never
acknowledged, and is removed when the journal is opened.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from glnn.data.files import quote_path, sync_folder, wrap_write_errors, write_error
from glnn.exceptions import DataFormatError

NAME = "journal.jsonl"
_SUM = ', "sum": "'  # what stands before the checksum


class Journal:
    """The entries of a journal file, which is made if there is none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with wrap_write_errors(path):
            known = path.read_bytes() if path.exists() else b""
            self.entries, self._sum, self._size = _parse(path, known)
            self._write(b"", os.O_CREAT)
            sync_folder(path.parent)

    def append(self, entry: Mapping[str, Any]) -> None:
        """Append an entry and force it to the disk; if that fails, nothing has changed."""
        text = json.dumps(entry, allow_nan=False)
        digest = _digest(self._sum, text)
        line = f'{text[:-1]}{_SUM}{digest}"}}\n'.encode()
        try:
            self._write(line)
        except OSError as error:
            with contextlib.suppress(OSError):  # else the next append tries again
                self._write(b"")
            raise write_error(self.path, error) from error
        self.entries.append(dict(entry))
        self._sum, self._size = digest, self._size + len(line)

    def _write(self, line: bytes, flags: int = 0) -> None:
        """Cut what a crash or a failed append has left, then append and force to the disk."""
        handle = os.open(self.path, os.O_RDWR | os.O_APPEND | flags, 0o644)
        try:
            if os.fstat(handle).st_size != self._size:
                os.ftruncate(handle, self._size)
            while line:
                line = line[os.write(handle, line) :]
            os.fsync(handle)
        finally:
            os.close(handle)


def _digest(before: str, text: str) -> str:
    return hashlib.sha256(f"{before}\n{text}".encode()).hexdigest()[:16]


def _parse(path: Path, known: bytes) -> tuple[list[dict[str, Any]], str, int]:
    """Return the entries, the last checksum and the size of the part that is whole."""
    entries, last, size = [], "", 0
    lines = known.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        entry = _parse_line(line, last)
        if entry is None and number == len(lines):
            break  # cut short by a crash
        if entry is None:
            raise DataFormatError(
                f"{quote_path(path)} must be a journal as it was written, got a damaged line "
                f"{number} of {len(lines)}. Restore it from a copy."
            )
        last = entry.pop("sum")
        entries.append(entry)
        size += len(line)
    return entries, last, size


def _parse_line(line: bytes, before: str) -> dict[str, Any] | None:
    """Return the entry of a whole line with the right checksum, else ``None``."""
    try:
        text = line.decode()
        entry = json.loads(text)
        body = text.rsplit(_SUM, 1)[0]
        is_right = entry["sum"] == _digest(before, body + "}")
    except (ValueError, LookupError, TypeError, RecursionError):
        return None
    return entry if is_right and text.endswith('"}\n') else None


# What the acts amount to

CHANGES = ("label", "labels", "skip", "unsure")  # acts that undo takes back


class LabelState:
    """Labels by row id after some acts of a journal; ``initial`` are those of the table."""

    def __init__(
        self,
        initial: Mapping[str, str],
        classes: Sequence[str],
        entries: Iterable[Mapping[str, Any]] = (),
    ) -> None:
        self._start = dict(initial), tuple(classes)
        self.acts: list[Mapping[str, Any]] = []  # in force, the last one undone first
        self.changed: dict[str, int] = {}  # number of the last entry on each row
        self.n_entries = 0
        self._replay()
        for entry in entries:
            self.apply(entry)

    def _replay(self) -> None:
        self.labels = dict(self._start[0])
        self.classes = list(self._start[1])  # in the order in which they came up
        self.skipped: dict[str, None] = {}  # put off, the first one first
        self.unsure: dict[str, None] = {}
        self.looked: set[str] = set()  # labels that were looked at again and kept
        for act in self.acts:
            self._take(act)

    def apply(self, entry: Mapping[str, Any]) -> None:
        """Take an entry of the journal into account."""
        self.n_entries += 1
        if entry["act"] == "undo":
            act = self.acts.pop()
            self._replay()
        elif entry["act"] in CHANGES:
            act = entry
            self.acts.append(act)
            self._take(act)
        else:
            return
        self.changed |= dict.fromkeys(rows_of(act), self.n_entries)

    def _take(self, act: Mapping[str, Any]) -> None:
        if act["act"] == "labels":
            for row, value in act["labels"].items():
                self._label(row, value)
        elif act["act"] == "label":
            self._label(act["id"], act["value"])
        elif act["act"] == "unsure":
            self._clear(act["id"])
            self.labels.pop(act["id"], None)
            self.unsure[act["id"]] = None
        elif act["id"] in self.labels:
            self.looked.add(act["id"])
        else:
            self._clear(act["id"])
            self.skipped[act["id"]] = None

    def _label(self, row: str, value: str) -> None:
        is_same = self.labels.get(row) == value
        self._clear(row)
        if is_same:
            self.looked.add(row)
        self.labels[row] = value
        if value not in self.classes:
            self.classes.append(value)

    def _clear(self, row: str) -> None:
        self.skipped.pop(row, None)
        self.unsure.pop(row, None)
        self.looked.discard(row)

    def status(self, row: str) -> str:
        """Return ``labelled``, ``skipped``, ``unsure`` or ``open``."""
        if row in self.labels:
            return "labelled"
        return "skipped" if row in self.skipped else "unsure" if row in self.unsure else "open"


def rows_of(act: Mapping[str, Any]) -> list[str]:
    """Return the ids of the rows that an act is about."""
    return list(act["labels"]) if act["act"] == "labels" else [act["id"]]
