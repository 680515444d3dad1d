"""What the acts of a session amount to: labels, classes, rows put off, and what can be undone."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

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
