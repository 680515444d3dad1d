"""What a grid would run and how long that may take, from the CPU times of earlier runs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from glnn_lab.experiments.cells import Cell

Place = tuple[str, str]
"""A method and a data set."""


@dataclass(frozen=True)
class Plan:
    """How many cells a method has on a data set, how many are finished, and expected seconds.

    ``seconds`` are those of all cells that have a time to go by, ``seconds_left`` those of
    unfinished ones among them; ``n_unknown`` counts unfinished cells without any.
    """

    n_cells: Mapping[Place, int]
    n_done: Mapping[Place, int]
    seconds: Mapping[Place, float]
    seconds_left: float
    n_unknown: int

    @property
    def datasets(self) -> list[str]:
        """Data sets in the order of the cells."""
        return list(dict.fromkeys(dataset for _, dataset in self.n_cells))

    @property
    def methods(self) -> list[str]:
        """Methods in the order of the cells."""
        return list(dict.fromkeys(method for method, _ in self.n_cells))


def make_plan(cells: Sequence[Cell], records: Iterable[Mapping[str, Any]]) -> Plan:
    """Count cells, and expect of each what like ones took.

    Like ones are, in this order: the cell itself, the same method, data set and settings, the
    same method and data set.
    """
    times = _Times(records)
    n_cells: Counter[Place] = Counter()
    n_done: Counter[Place] = Counter()
    seconds: dict[Place, float] = defaultdict(float)
    left, n_unknown = 0.0, 0
    for cell in dict.fromkeys(cells):
        place, is_done = (cell.method, cell.dataset), cell.id in times.finished
        expected = times.expected(cell)
        n_cells[place] += 1
        n_done[place] += is_done
        seconds[place] += expected or 0.0
        left += 0.0 if is_done else expected or 0.0
        n_unknown += expected is None
    return Plan(n_cells, n_done, seconds, left, n_unknown)


class _Times:
    """Seconds of finished cells, by how much they have in common with another."""

    def __init__(self, records: Iterable[Mapping[str, Any]]) -> None:
        self.finished: dict[str, float] = {}
        self._like: dict[Any, list[float]] = defaultdict(list)
        for record in records:
            if "cpu_seconds" not in record:
                continue
            cell, seconds = Cell.from_dict(record), float(record["cpu_seconds"])
            self.finished[cell.id] = seconds
            for key in _keys(cell):
                self._like[key].append(seconds)

    def expected(self, cell: Cell) -> float | None:
        if cell.id in self.finished:
            return self.finished[cell.id]
        for key in _keys(cell):
            if key in self._like:
                return sum(self._like[key]) / len(self._like[key])
        return None


def _keys(cell: Cell) -> list[Any]:
    settings = (*cell.settings.items(), cell.probe, cell.perturbation == "no-graph")
    return [(cell.method, cell.dataset, settings), (cell.method, cell.dataset)]
