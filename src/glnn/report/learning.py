"""How a graph was learned, as the page tells it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from glnn.engine.history import History
from glnn.report.page.data import Curve, Learning, Round
from glnn.report.words import certificate_sentences
from glnn.solver import Certificate

_CURVES = ("loss", "validation_loss", "validation_accuracy")


def learning_of(
    history: History,
    certificate: Certificate | None,
    chosen: Mapping[str, Any],
    rounds: tuple[Round, ...] = (),
    metric: tuple[tuple[str, float], ...] = (),
) -> Learning:
    """Return training curves, what is proven, and what the fit decided by itself.

    Parameters
    ----------
    history
        Every epoch's numbers.
    certificate
        Of the learned graph.
    chosen
        The fit's own choices, by name.
    rounds
        The graph after each round, where it was kept.
    metric
        Columns that count most in the learned similarity, with their weights.
    """
    return Learning(
        rounds=rounds,
        metric=metric,
        curves=curves_of(history, int(chosen.get("n_rounds", 0))),
        certificate=tuple(certificate_sentences(certificate)),
        choices=chosen_in_words(chosen),
    )


def curves_of(history: History, n_rounds: int) -> tuple[Curve, ...]:
    """Return the training stages in order; those after the last round that counts were undone.

    Parameters
    ----------
    history
        Every epoch's numbers; a stage is named ``classifier`` and its round.
    n_rounds
        The last round that counts, 0 if that is not known.
    """
    curves: list[Curve] = []
    starts = [k for k, epoch in enumerate(history.column("epoch")) if epoch == 0]
    for start, stop in zip(starts, [*starts[1:], len(history)]):
        stage = str(history[start]["stage"])
        number = int(stage.split()[-1]) if stage.split()[-1].isdigit() else 0
        name = f"round {number}" if number else stage
        n_before = sum(curve.name.split(",")[0] == name for curve in curves)
        columns = {
            column: [_number(history[k].get(column)) for k in range(start, stop)]
            for column in _CURVES
            if column in history[start]
        }
        said = f"{name}, try {n_before + 1}" if n_before else name
        curves.append(Curve(said, columns, undone=0 < n_rounds < number))
    return tuple(curves)


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None


_SOURCES = {
    "given": "the given graph was trusted and improved",
    "features": "the given graph was left out: features alone serve the labels better",
    "none": "no graph was given; it comes from features alone",
}
_CHOSEN = {
    "signal": "how features are compared",
    "gate": "how far above chance a prediction must be to count",
    "closeness": "weight of staying close to the given graph",
    "n_steps": "steps over the graph",
    "n_rounds": "rounds that count",
}


def chosen_in_words(chosen: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return what the fit decided by itself, as pairs of words.

    Examples
    --------
    >>> chosen_in_words({"source": "none", "n_rounds": 2})
    (('source', 'no graph was given; it comes from features alone'), ('rounds that count', '2'))
    """
    words = []
    for name, value in chosen.items():
        if name == "source":
            words.append((name, _SOURCES.get(str(value), str(value))))
        else:
            shown = f"{value:.3g}" if isinstance(value, float) else str(value)
            words.append((_CHOSEN.get(name, name), shown))
    return tuple(words)
