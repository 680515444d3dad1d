"""What the templates of the sections need, worked out from the page's data."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from jaxtyping import Float, Int

from glnn.engine.callbacks import History
from glnn.quality import Evaluation as Estimate
from glnn.quality.estimate import HOW, Kind, MethodScore, verdict_of
from glnn.quality.metrics import (
    Interval,
    Judged,
    bootstrap_weights,
    class_intervals,
    confusion,
    reliability,
)
from glnn.report.page.page_data import (
    ClassQuality,
    Curve,
    Evaluation,
    Learning,
    Measure,
    Method,
    PageData,
    Round,
    Tone,
    links_of,
)
from glnn.report.page.subset import Shown, scaled_to
from glnn.report.results import OnTestNodes
from glnn.report.text import NOTHING, certificate_sentences, count, percent
from glnn.solver import Certificate

# --- numbers: Numbers as the page writes them

_BOND = "\N{NO-BREAK SPACE}"


def measure(one: Measure) -> str:
    r"""Return a share with its interval in percent.

    Examples
    --------
    >>> measure(Measure("accuracy", 0.881, 0.85, 0.912)), measure(Measure("accuracy", None))
    ('88.1\xa0% [85.0,\xa091.2]', '–')
    """
    value = percent(one.value).replace(" ", _BOND)
    if one.low is None or one.high is None:
        return value
    return f"{value} [{100 * one.low:.1f},{_BOND}{100 * one.high:.1f}]"


def lead(one: Measure) -> str:
    r"""Return a difference of shares in percentage points, with its sign.

    Examples
    --------
    >>> lead(Measure("lead", 0.02, -0.01, 0.05)), lead(Measure("lead", -0.02))
    ('+2.0 [-1.0,\xa0+5.0]', '-2.0')
    """
    if one.value is None:
        return NOTHING
    if one.low is None or one.high is None:
        return f"{100 * one.value:+.1f}"
    return f"{100 * one.value:+.1f} [{100 * one.low:+.1f},{_BOND}{100 * one.high:+.1f}]"


def plain_measure(one: Measure) -> str:
    r"""Return a number that is no share, with its interval.

    Examples
    --------
    >>> plain_measure(Measure("log loss", 0.31234, 0.25, 0.4))
    '0.312 [0.250,\xa00.400]'
    """
    if one.value is None:
        return NOTHING
    if one.low is None or one.high is None:
        return f"{one.value:.3f}"
    return f"{one.value:.3f} [{one.low:.3f},{_BOND}{one.high:.3f}]"


def interval_scale(methods: tuple[Method, ...]) -> tuple[float, float]:
    """Return a common scale in steps of ten percent that holds all accuracies and intervals.

    Examples
    --------
    >>> interval_scale((Method("a", Measure("accuracy", 0.84, 0.81, 0.87)),))
    (0.8, 0.9)
    """
    shares = [
        value
        for method in methods
        for value in (method.accuracy.value, method.accuracy.low, method.accuracy.high)
        if value is not None
    ]
    if not shares:
        return 0.0, 1.0
    low, high = int(10 * min(shares)), -int(-10 * max(shares) // 1)
    return low / 10, min(1.0, max(high, low + 1) / 10)


# --- sections: What the templates of the sections need, worked out from the page's data

_N_HEATS = 8
_WEAK = 0.5
"""A class found or right less often than this is called weak."""


def verdict_section(page: PageData) -> dict[str, Any]:
    """Return bars of the methods on one scale, and the warnings with weak classes among them."""
    evaluation, said = page.evaluation, page.warnings
    if evaluation is None:
        return {"bars": [], "has_leads": False, "scale": (0.0, 1.0), "warnings": list(said)}
    low, high = interval_scale(evaluation.methods)

    def at(share: float | None) -> float | None:
        return None if share is None else round((share - low) / (high - low), 4)

    bars = [
        {"method": m} | {k: at(getattr(m.accuracy, n)) for k, n in _BAR_PARTS.items()}
        for m in evaluation.methods
    ]
    return {
        "bars": bars,
        "has_leads": any(m.lead is not None for m in evaluation.methods),
        "scale": (low, high),
        "warnings": [*evaluation.warnings, *said, *weak_classes(evaluation, said)],
    }


_BAR_PARTS = {"at": "value", "low": "low", "high": "high"}


def weak_classes(evaluation: Evaluation, warnings: Sequence[str] = ()) -> list[str]:
    """Return a sentence on every class that is seldom found or seldom right.

    A class is named where no warning does so already; ``warnings`` are those of the page.
    """
    said = []
    for one in evaluation.classes:
        if any(one.name in warning for warning in (*evaluation.warnings, *warnings)):
            continue
        weak = []
        if one.recall.value is not None and one.recall.value < _WEAK:
            weak.append(f"only {100 * one.recall.value:.0f} % of its nodes are found")
        if one.precision.value is not None and one.precision.value < _WEAK:
            weak.append(f"only {100 * one.precision.value:.0f} % of those predicted are right")
        if weak:
            said.append(f"Weak class {one.name}: {', '.join(weak)} ({one.n_judged} judged).")
    return said


def error_section(page: PageData) -> dict[str, Any]:
    """Return the confusion matrix line by line, with recall beside and precision below."""
    evaluation = page.evaluation
    if evaluation is None or evaluation.confusion is None:
        return {"confusion": [], "precisions": []}
    counts = np.asarray(evaluation.confusion)
    by_name = {one.name: one for one in evaluation.classes}
    lines = []
    for number, name in enumerate(page.class_names):
        known = by_name.get(name)
        recall = known.recall if known else _share(counts[number], number)
        lines.append(
            {"name": name, "number": number, "cells": _cells(counts[number]), "recall": recall}
        )
    precisions = [
        by_name[name].precision if name in by_name else _share(counts[:, k], k)
        for k, name in enumerate(page.class_names)
    ]
    return {"confusion": lines, "precisions": precisions}


def _cells(line: Int[np.ndarray, "c"]) -> list[dict[str, int]]:
    total = max(int(line.sum()), 1)
    heats = np.ceil((_N_HEATS - 1) * line / total).astype(int)
    return [{"count": int(n), "heat": int(heat)} for n, heat in zip(line, heats)]


def _share(counts: Int[np.ndarray, "c"], number: int) -> Measure:
    whole = int(counts.sum())
    return Measure("share", float(counts[number] / whole) if whole else None)


def map_section(page: PageData, shown: Shown) -> dict[str, Any]:
    """Return how many links have which fate, and the map in a sentence."""
    fates = shown.fates
    n_learned = fates[0] + fates[1]
    words = f"{count(len(shown.chosen), 'node')} and {count(n_learned, 'learned link')}."
    if page.graphs.given is not None:
        words += (
            f" Of {count(fates[0] + fates[2], 'given link')} {fates[0]:,} were kept and "
            f"{fates[2]:,} dropped; {fates[1]:,} were added."
        )
    if page.graphs.equal_labels:
        words += f" Learned links that join equal labels: {page.graphs.equal_labels}."
    return {
        "fates": fates,
        "has_given": page.graphs.given is not None,
        "map_words": words,
        "left_out": shown.left_out,
    }


# --- judged: From what was measured to what the page's first two sections show

_TONES: dict[Kind, Tone] = {
    "good": "good",
    "level": "caution",
    "plain": "caution",
    "few": "caution",
    "chance": "bad",
}
_SHOWN = {
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "log_loss": "log loss",
    "brier": "Brier score",
    "auc": "area under the curve",
    "calibration_error": "calibration error",
}


def estimated(estimate: Estimate, class_names: Sequence[str]) -> Evaluation:
    """Return what folds over the labelled nodes found.

    Parameters
    ----------
    estimate
        The estimate.
    class_names
        Of all classes of the data; some may have had no label to judge.
    """
    names = [str(label) for label in estimate.classes]
    n_judged, n_folds = len(estimate.own.judged), len(estimate.folds)
    basis = (
        f"Measured on {count(n_judged, 'label')} hidden in turn, in {n_folds} folds; {HOW}. Map "
        "and table show these nodes as the fits without their label do."
    )
    extra = (
        []
        if estimate.coverage is None
        else [measure_of("sets that hold the true class", estimate.coverage)]
    )
    found = _shown(
        estimate.own, estimate.others, estimate.per_class, names, basis, estimate.notes, extra
    )
    assert found.confusion is not None  # which is always counted
    place = np.array([list(class_names).index(name) for name in names])
    confusion = np.zeros((len(class_names), len(class_names)), dtype=np.int64)
    confusion[np.ix_(place, place)] = found.confusion
    return dataclasses.replace(found, confusion=confusion)


def on_test_nodes(tested: OnTestNodes, class_names: Sequence[str]) -> Evaluation:
    """Return what labels that were kept for the test found.

    Parameters
    ----------
    tested
        The fit and compared methods on the same nodes.
    class_names
        Of all classes of the data.
    """
    own = tested.own
    basis = f"Measured on {count(len(own.judged), 'label')} kept for the test; {HOW}."
    return _shown(own, tested.others, class_intervals(own.judged), class_names, basis)


def on_hidden_labels(judged: Judged, names: Sequence[str]) -> Evaluation:
    """Return what fits said of labels that were hidden from them, nothing beside it."""
    weights = bootstrap_weights(len(judged), np.random.default_rng(0))
    own = MethodScore.of("glnn", "GLNN", judged, weights, 0.0)
    basis = f"Measured on {count(len(judged), 'label')} hidden in turn; {HOW}."
    return _shown(own, (), class_intervals(judged), names, basis)


def _shown(
    own: MethodScore,
    others: Sequence[MethodScore],
    per_class: Sequence[dict[str, Interval]],
    names: Sequence[str],
    basis: str,
    notes: Sequence[str] = (),
    extra: Sequence[Measure] = (),
) -> Evaluation:
    verdict = verdict_of(own, others)
    sizes = {
        key: np.bincount(among, minlength=len(names))
        for key, among in (("precision", own.judged.predicted), ("recall", own.judged.classes))
    }
    bins = reliability(own.judged)
    table = confusion(own.judged, np.ones((1, len(own.judged))))[0]
    return Evaluation(
        verdict.sentence[:1].upper() + verdict.sentence[1:],
        _TONES[verdict.kind],
        basis,
        tuple(_method(score, score is own) for score in (own, *others)),
        (
            *(
                measure_of(_SHOWN[name], own.metrics[name])
                for name in _SHOWN
                if name in own.metrics
            ),
            *extra,
        ),
        tuple(
            ClassQuality(
                name,
                int(sizes["recall"][k]),
                *(_of_some(key, found[key], int(sizes[key][k])) for key in sizes),
            )
            for k, (name, found) in enumerate(zip(names, per_class))
        ),
        np.rint(table).astype(np.int64),
        tuple(zip(*(bins[key].tolist() for key in ("confidence", "accuracy", "count")))),
        own.metrics["calibration_error"].value,
        tuple(notes),
    )


def _method(score: MethodScore, is_own: bool) -> Method:
    ahead = None if score.difference is None else measure_of("lead", score.difference)
    return Method(score.title, measure_of("accuracy", score.metrics["accuracy"]), ahead, is_own)


def _of_some(name: str, interval: Interval, n_nodes: int) -> Measure:
    """Return a share of some nodes; of none there is no share, and the interval says nothing."""
    return measure_of(name, interval) if n_nodes else Measure(name, None)


def measure_of(name: str, interval: Interval) -> Measure:
    """Return an interval as the page's number; what is not known is left out."""
    value, low, high = (
        part if math.isfinite(part) else None
        for part in (interval.value, interval.low, interval.high)
    )
    return Measure(name, value, low, high)


# --- learning: How a graph was learned, as the page tells it

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


# --- rounds: The graph of each round as a small picture ordered by class, and what changed between

MOST_CELLS = 180
"""Rows and columns of the picture at most; larger graphs are summed in blocks."""


@dataclass(frozen=True, eq=False)
class MatrixPictures:
    """Pictures of one size, rounds x cells x cells, 0 to 255, and where classes begin."""

    values: np.ndarray
    names: tuple[str, ...]
    starts: Int[np.ndarray, "c"]


def class_order(classes: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """Return the nodes sorted by class, unknown ones last."""
    known = np.where(classes < 0, classes.max(initial=0) + 1, classes)
    return np.argsort(known, kind="stable")


def block_means(
    graph: sp.csr_matrix, order: Int[np.ndarray, "n"], n_cells: int
) -> Float[np.ndarray, "k k"]:
    """Return the mean weight of the pairs in each block of the reordered matrix.

    Examples
    --------
    >>> pair = sp.csr_matrix(np.array([[0, 1.0], [1.0, 0]]))
    >>> block_means(pair, np.array([0, 1]), 1)
    array([[0.5]])
    """
    n_nodes = graph.shape[0]
    cell = np.empty(n_nodes, np.int64)
    cell[order] = np.arange(n_nodes) * n_cells // max(n_nodes, 1)
    entries = graph.tocoo()
    keys = cell[entries.row] * n_cells + cell[entries.col]
    sums = np.bincount(keys, entries.data, minlength=n_cells * n_cells)
    sizes = np.bincount(cell, minlength=n_cells).astype(float)
    return np.asarray(sums.reshape(n_cells, n_cells) / np.outer(sizes, sizes))


def matrix_pictures(
    graphs: Sequence[tuple[str, sp.csr_matrix]], classes: Int[np.ndarray, "n"]
) -> MatrixPictures:
    """Return the graphs as pictures with a common scale, the square root of the mean weight."""
    n_nodes = graphs[0][1].shape[0]
    n_cells, order = min(n_nodes, MOST_CELLS), class_order(classes)
    sums = np.stack([block_means(graph, order, n_cells) for _, graph in graphs])
    roots = np.sqrt(np.maximum(sums, 0.0))
    top = float(np.quantile(roots[roots > 0], 0.99)) if (roots > 0).any() else 1.0
    sorted_classes = classes[order]
    starts = np.flatnonzero(np.r_[True, sorted_classes[1:] != sorted_classes[:-1]])
    return MatrixPictures(
        scaled_to(roots, np.uint8, top),
        tuple(name for name, _ in graphs),
        (starts * n_cells) // max(n_nodes, 1),
    )


def changes(graphs: Sequence[sp.csr_matrix]) -> list[tuple[int, int]]:
    """Return how many links each graph adds to and removes from the one before it.

    Examples
    --------
    >>> one, two = (sp.csr_matrix(np.array(m)) for m in ([[0, 1.0], [1.0, 0]], [[0, 0.0], [0, 0]]))
    >>> changes([one, two])
    [(0, 1)]
    """
    found = []
    for before, after in pairwise(graphs):
        fate = np.bincount(links_of(after, before).fate, minlength=3)
        found.append((int(fate[1]), int(fate[2])))
    return found
