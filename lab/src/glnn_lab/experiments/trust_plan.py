"""Which draws of which measures of trust are made, and in which order."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch
from joblib import Parallel, delayed

from glnn_lab.experiments.trust_answers import (
    Case,
    Row,
    calibration,
    coverage,
    noise,
    sets,
    suspects,
    uneven,
)
from glnn_lab.experiments.trust_reasons import choice, influence, influence_rows


@dataclass(frozen=True)
class Measure:
    """Draws of one kind.

    Parameters
    ----------
    draw
        One of them, by its case and its seed.
    cases
        What is drawn from.
    n_draws
        How many of each case.
    gather
        Where draws count together alone: makes one row of all rows of a case.
    """

    draw: Callable[[Case, int], Row]
    cases: tuple[Case, ...]
    n_draws: int
    gather: Callable[[Sequence[Row]], Row] | None = None


SMALL = ("wine", "iris", "moons", "gaps", "text", "dates")

PLAN = {
    "calibration": Measure(
        calibration,
        (
            ("pubmed", 20, 500, "auto"),
            ("cora", 20, 500, "auto"),
            ("citeseer", 20, 500, "auto"),
            ("digits", 200, 0, "folds"),
            ("uneven", 300, 0, "folds"),
        ),
        10,
    ),
    "suspects": Measure(suspects, (("cora", 20), ("digits", 20), ("cancer", 40)), 10),
    "sets": Measure(sets, (("digits", 10), ("wine", 10), ("cancer", 20)), 20),
    "graph sets": Measure(sets, (("cora", 20),), 10),
    "uneven": Measure(uneven, (("uneven", 200), ("uneven", 400)), 10),
    "noise": Measure(
        noise,
        ((600, 300, 4, False), (600, 30, 4, False), (400, 10, 2, False), (600, 30, 4, True)),
        5,
    ),
    "coverage": Measure(
        coverage,
        (
            ("uneven", 100),
            ("digits", 60),
            ("cancer", 50),
            ("wide", 60),
            *((name, 40) for name in SMALL),
        ),
        10,
    ),
    "choice": Measure(choice, (("cora",), ("citeseer",), ("digits",)), 10),
    "influence": Measure(
        influence, (("block", 2, 200), ("iris", 4, 200), ("moons", 4, 200)), 16, influence_rows
    ),
}


@dataclass(frozen=True)
class Draw:
    """One draw: which measure, which case, which seed."""

    name: str
    case: Case
    seed: int

    def make(self, deadline: float | None = None) -> Row | None:
        """Measure in a single thread; nothing if it would begin after the deadline."""
        if deadline is not None and time.time() > deadline:
            return None
        torch.set_num_threads(1)
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = PLAN[self.name].draw(self.case, self.seed)
        return found | {"seconds": time.perf_counter() - started}


def draws_of(names: Sequence[str], first: int, most: int | None = None) -> list[Draw]:
    """Return all draws, those of every case in turn: a run that is cut short has some of each.

    Parameters
    ----------
    names
        Of measures.
    first
        The first seed.
    most
        At most so many of each case.
    """
    found = []
    for name in names:
        measure = PLAN[name]
        n_draws = measure.n_draws if most is None else min(most, measure.n_draws)
        found += [
            (k / n_draws, Draw(name, case, first + k))
            for case in measure.cases
            for k in range(n_draws)
        ]
    return [draw for _, draw in sorted(found, key=lambda pair: pair[0])]


def made(
    draws: Sequence[Draw], n_jobs: int, deadline: float | None = None
) -> Iterator[tuple[Draw, Row]]:
    """Make draws, several at a time; return each as it comes."""

    def one(draw: Draw) -> tuple[Draw, Row | None]:
        return draw, draw.make(deadline)

    work = Parallel(n_jobs, batch_size=1, return_as="generator_unordered")
    for draw, row in work(delayed(one)(draw) for draw in draws):
        if row is not None:
            yield draw, row


def gathered(rows: Sequence[tuple[Draw, Row]]) -> list[Row]:
    """Return plain rows for a file; draws that count together alone become one row."""
    order = sorted(rows, key=lambda pair: (list(PLAN).index(pair[0].name), str(pair[0].case)))
    found: list[Row] = []
    for (name, case), group in groupby(order, key=lambda pair: (pair[0].name, pair[0].case)):
        own = sorted(group, key=lambda pair: pair[0].seed)
        gather = PLAN[name].gather
        where = {"what": name, "case": list(case), "seed": own[0][0].seed}
        if gather is None:
            found += [where | {"seed": draw.seed} | row for draw, row in own]
        else:
            seconds = sum(row["seconds"] for _, row in own)
            found.append(where | gather([row for _, row in own]) | {"seconds": seconds})
    return found
