"""Label by a column that is hidden from the fits, to measure how fast a session learns."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from glnn._utils import check_choice, check_integer
from glnn.exceptions import InputError
from glnn.report.sources import Source
from glnn.studio.learning import QUICK, with_labels
from glnn.studio.session import LabelSession

ORDERS = ("suggested", "random")


@dataclass(frozen=True)
class OraclePoint:
    """True accuracy after some labels."""

    n_labels: int
    accuracy: float  # on the rows that have no label in the session


def hide_labels(source: Source) -> tuple[Source, dict[str, str]]:
    """Return a source without its labels, and these by row id."""
    data = source.data
    ids = [str(name) for name in data.node_ids.tolist()]
    truth = {ids[k]: data.class_names[data.labels[k]] for k in data.labelled.tolist()}
    if len(set(truth.values())) < 2:
        raise InputError("the oracle's column must have two classes at least, got fewer.")
    return with_labels(source, {}, ()), truth


def run_oracle(
    session: LabelSession,
    truth: Mapping[str, str],
    *,
    budget: int,
    order: str = "suggested",
    seed: int = 0,
    every: int = 1,
    kind: str = QUICK,
) -> Iterator[OraclePoint]:
    """Label ``budget`` rows by their true class, and yield the true accuracy as it grows.

    The session must have been opened without ``background``. ``order`` is ``suggested``, that of
    the session, or ``random``, drawn from ``seed``. A fit follows ``every`` label.
    """
    check_choice("order", order, ORDERS)
    check_integer("budget", budget, low=1)
    at_random = np.random.default_rng(seed).permutation([r for r in session.ids if r in truth])
    for number in range(1, min(budget, len(at_random)) + 1):
        row = str(at_random[number - 1]) if order == "random" else _next_known(session, truth)
        if row is None:
            return
        session.label(row, truth[row])
        if number % every == 0 and len(set(session.labels.values())) > 1:
            session.fit(kind)
            yield OraclePoint(len(session.labels), measure(session, truth))


def _next_known(session: LabelSession, truth: Mapping[str, str]) -> str | None:
    """Return the first proposal that has a class; rows without one are marked as unsure."""
    while found := session.next(1):
        row: str = found[0]["id"]
        if row in truth:
            return row
        session.unsure(row)
    return None


def measure(session: LabelSession, truth: Mapping[str, str]) -> float:
    """Return the share of right predictions on rows whose label the session does not have."""
    labels, predicted = session.labels, session.predictions()
    rows = [row for row in truth if row not in labels]
    return float(np.mean([predicted[row] == truth[row] for row in rows])) if rows else float("nan")
