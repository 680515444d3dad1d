"""Label by a column that is hidden from the fits, to measure how fast a session learns."""

from collections.abc import Iterator, Mapping

import numpy as np

from glnn._utils import check_choice, check_integer
from glnn.exceptions import InputError
from glnn.report.sources import Source
from glnn.studio.learning import QUICK, with_labels
from glnn.studio.session import LabelSession

ORDERS = ("suggested", "random")


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
) -> Iterator[tuple[int, float]]:
    """Label ``budget`` rows by their true class, one by one, and fit after each label.

    Yields the number of labels and the accuracy on the rows that have no label in the session. It
    must have been opened without ``background``. ``order`` is ``suggested``, that of the session,
    or ``random``, drawn from ``seed``.
    """
    check_choice("order", order, ORDERS)
    check_integer("budget", budget, low=1)
    at_random = np.random.default_rng(seed).permutation([r for r in session.ids if r in truth])
    for number in range(min(budget, len(at_random))):
        row = str(at_random[number]) if order == "random" else _next_known(session, truth)
        if row is None:
            return
        session.label(row, truth[row])
        if len(set(session.labels.values())) > 1:
            session.fit(QUICK)
            yield len(session.labels), measure(session, truth)


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
