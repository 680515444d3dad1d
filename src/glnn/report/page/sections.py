"""The numbers and sentences of each section of the page, in the form its template needs."""

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
from glnn.quality.estimate import INTERVAL_NOTE
from glnn.quality.metrics import (
    Interval,
    ScoredPredictions,
    bootstrap_weights,
    class_intervals,
    confusion,
    reliability,
)
from glnn.quality.metrics import Score as MethodScore
from glnn.quality.verdict import VerdictKind
from glnn.report.page.page_data import (
    ClassQuality,
    Curve,
    Learning,
    PageData,
    PageEvaluation,
    PageMeasure,
    PageMethod,
    Round,
    Tone,
    merge_links,
)
from glnn.report.page.subset import PageSubset, quantize
from glnn.report.results import HoldoutScores
from glnn.report.text import DASH, certificate_sentences, format_count, format_percent
from glnn.solver import Certificate

_NBSP = "\N{NO-BREAK SPACE}"


def format_share(one: PageMeasure) -> str:
    r"""Return a share with its interval in percent.

    Examples
    --------
    >>> format_share(PageMeasure("accuracy", 0.881, 0.85, 0.912))
    '88.1\xa0% [85.0,\xa091.2]'
    >>> format_share(PageMeasure("accuracy", None))
    '–'
    """
    value = format_percent(one.value).replace(" ", _NBSP)
    if one.low is None or one.high is None:
        return value
    return f"{value} [{100 * one.low:.1f},{_NBSP}{100 * one.high:.1f}]"


def format_lead(one: PageMeasure) -> str:
    r"""Return a difference of shares in percentage points, with its sign.

    Examples
    --------
    >>> format_lead(PageMeasure("lead", 0.02, -0.01, 0.05)), format_lead(PageMeasure("lead", -0.02))
    ('+2.0 [-1.0,\xa0+5.0]', '-2.0')
    """
    if one.value is None:
        return DASH
    if one.low is None or one.high is None:
        return f"{100 * one.value:+.1f}"
    return f"{100 * one.value:+.1f} [{100 * one.low:+.1f},{_NBSP}{100 * one.high:+.1f}]"


def format_number(one: PageMeasure) -> str:
    r"""Return a number with its interval, without a percent sign.

    Examples
    --------
    >>> format_number(PageMeasure("log loss", 0.31234, 0.25, 0.4))
    '0.312 [0.250,\xa00.400]'
    """
    if one.value is None:
        return DASH
    if one.low is None or one.high is None:
        return f"{one.value:.3f}"
    return f"{one.value:.3f} [{one.low:.3f},{_NBSP}{one.high:.3f}]"


def interval_scale(methods: tuple[PageMethod, ...]) -> tuple[float, float]:
    """Return the bounds, in steps of ten percent, of a scale for all accuracies and intervals.

    Examples
    --------
    >>> interval_scale((PageMethod("a", PageMeasure("accuracy", 0.84, 0.81, 0.87)),))
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


_N_HEATS = 8  # colours of the confusion matrix
_WEAK = 0.5  # a class with a recall or precision below this is called weak


def verdict_section(page: PageData) -> dict[str, Any]:
    """Return the bars of the methods on one scale, and all warnings."""
    evaluation, warnings = page.evaluation, page.warnings
    if evaluation is None:
        return {"bars": [], "has_leads": False, "scale": (0.0, 1.0), "warnings": list(warnings)}
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
        "warnings": [*evaluation.warnings, *warnings, *weak_classes(evaluation, warnings)],
    }


_BAR_PARTS = {"at": "value", "low": "low", "high": "high"}


def weak_classes(evaluation: PageEvaluation, warnings: Sequence[str] = ()) -> list[str]:
    """Return a sentence on every class with low recall or precision.

    Classes that a warning of the evaluation or of the page already names are skipped.
    """
    sentences = []
    for one in evaluation.classes:
        if any(one.name in warning for warning in (*evaluation.warnings, *warnings)):
            continue
        weak = []
        if one.recall.value is not None and one.recall.value < _WEAK:
            weak.append(f"only {100 * one.recall.value:.0f} % of its nodes are found")
        if one.precision.value is not None and one.precision.value < _WEAK:
            weak.append(f"only {100 * one.precision.value:.0f} % of its predictions are right")
        if weak:
            sentences.append(f"Weak class {one.name}: {', '.join(weak)} ({one.n_judged} nodes).")
    return sentences


def error_section(page: PageData) -> dict[str, Any]:
    """Return the rows of the confusion matrix with their recall, and the precisions."""
    evaluation = page.evaluation
    if evaluation is None or evaluation.confusion is None:
        return {"confusion": [], "precisions": []}
    counts = np.asarray(evaluation.confusion)
    by_name = {one.name: one for one in evaluation.classes}
    lines = []
    for number, name in enumerate(page.class_names):
        known = by_name.get(name)
        recall = known.recall if known else _diagonal_share(counts[number], number)
        lines.append(
            {"name": name, "number": number, "cells": _cells(counts[number]), "recall": recall}
        )
    precisions = [
        by_name[name].precision if name in by_name else _diagonal_share(counts[:, k], k)
        for k, name in enumerate(page.class_names)
    ]
    return {"confusion": lines, "precisions": precisions}


def _cells(line: Int[np.ndarray, "c"]) -> list[dict[str, int]]:
    total = max(int(line.sum()), 1)
    heats = np.ceil((_N_HEATS - 1) * line / total).astype(int)
    return [{"count": int(n), "heat": int(heat)} for n, heat in zip(line, heats)]


def _diagonal_share(counts: Int[np.ndarray, "c"], number: int) -> PageMeasure:
    whole = int(counts.sum())
    return PageMeasure("share", float(counts[number] / whole) if whole else None)


def map_section(page: PageData, shown: PageSubset) -> dict[str, Any]:
    """Return the counts of kept, added and dropped links, and a sentence on them."""
    fates = shown.fates
    n_learned = fates[0] + fates[1]
    words = (
        f"{format_count(len(shown.chosen), 'node')} and {format_count(n_learned, 'learned link')}."
    )
    if page.graphs.given is not None:
        words += (
            f" Of {format_count(fates[0] + fates[2], 'given link')} {fates[0]:,} were kept and "
            f"{fates[2]:,} dropped; {fates[1]:,} were added."
        )
    if page.graphs.equal_labels:
        words += f" Learned links between equal labels: {page.graphs.equal_labels}."
    return {
        "fates": fates,
        "has_given": page.graphs.given is not None,
        "map_words": words,
        "left_out": shown.left_out,
    }


# The evaluation

_TONES: dict[VerdictKind, Tone] = {
    "good": "good",
    "level": "caution",
    "rival": "caution",
    "few": "caution",
    "chance": "bad",
}
_METRIC_NAMES = {
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "log_loss": "log loss",
    "brier": "Brier score",
    "auc": "area under the curve",
    "calibration_error": "calibration error",
}


def evaluation_from_folds(estimate: Estimate, class_names: Sequence[str]) -> PageEvaluation:
    """Return the evaluation by folds over the labelled nodes.

    ``class_names`` are those of all classes of the data, also of classes without a label.
    """
    names = [str(label) for label in estimate.classes]
    n_judged, n_folds = len(estimate.own.predictions), len(estimate.folds)
    basis = (
        f"Measured on {format_count(n_judged, 'label')} hidden in turn, in {n_folds} folds; "
        f"{INTERVAL_NOTE}. For these nodes, the map and the table show the predictions of the fits "
        "that did not use their label."
    )
    extra = (
        []
        if estimate.coverage is None
        else [interval_measure("prediction sets with the true class", estimate.coverage)]
    )
    found = _build_evaluation(estimate, estimate.per_class, names, basis, estimate.notes, extra)
    assert found.confusion is not None  # for mypy: it is always computed
    numbers = np.array([list(class_names).index(name) for name in names])
    confusion = np.zeros((len(class_names), len(class_names)), dtype=np.int64)
    confusion[np.ix_(numbers, numbers)] = found.confusion
    return dataclasses.replace(found, confusion=confusion)


def evaluation_from_test(
    tested: HoldoutScores, class_names: Sequence[str], notes: Sequence[str] = ()
) -> PageEvaluation:
    """Return the evaluation on the test labels."""
    own = tested.own
    basis = (
        f"Measured on {format_count(len(own.predictions), 'label')} kept for the test; "
        f"{INTERVAL_NOTE}."
    )
    per_class = class_intervals(own.predictions)
    return _build_evaluation(tested, per_class, class_names, basis, notes)


def evaluation_from_hidden(judged: ScoredPredictions, names: Sequence[str]) -> PageEvaluation:
    """Return the evaluation on hidden labels, without rivals."""
    weights = bootstrap_weights(len(judged), np.random.default_rng(0))
    own = MethodScore.of("glnn", "GLNN", judged, weights, 0.0)
    basis = f"Measured on {format_count(len(judged), 'label')} hidden in turn; {INTERVAL_NOTE}."
    alone = HoldoutScores(own, ())
    return _build_evaluation(alone, class_intervals(judged), names, basis)


def _build_evaluation(
    scores: HoldoutScores | Estimate,
    per_class: Sequence[dict[str, Interval]],
    names: Sequence[str],
    basis: str,
    notes: Sequence[str] = (),
    extra: Sequence[PageMeasure] = (),
) -> PageEvaluation:
    own, others, verdict = scores.own, scores.others, scores.verdict
    sizes = {
        key: np.bincount(among, minlength=len(names))
        for key, among in (
            ("precision", own.predictions.predicted),
            ("recall", own.predictions.classes),
        )
    }
    bins = reliability(own.predictions)
    table = confusion(own.predictions, np.ones((1, len(own.predictions))))[0]
    return PageEvaluation(
        verdict.sentence,
        _TONES[verdict.kind],
        basis,
        tuple(_page_method(score, score is own) for score in (own, *others)),
        (
            *(
                interval_measure(_METRIC_NAMES[name], own.metrics[name])
                for name in _METRIC_NAMES
                if name in own.metrics
            ),
            *extra,
        ),
        tuple(
            ClassQuality(
                name,
                int(sizes["recall"][k]),
                *(_class_measure(key, found[key], int(sizes[key][k])) for key in sizes),
            )
            for k, (name, found) in enumerate(zip(names, per_class))
        ),
        np.rint(table).astype(np.int64),
        tuple(zip(*(bins[key].tolist() for key in ("confidence", "accuracy", "count")))),
        own.metrics["calibration_error"].value,
        tuple(notes),
    )


def _page_method(score: MethodScore, is_own: bool) -> PageMethod:
    ahead = None if score.difference is None else interval_measure("lead", score.difference)
    accuracy = interval_measure("accuracy", score.metrics["accuracy"])
    return PageMethod(score.title, accuracy, ahead, is_own, score.seconds or None)


def _class_measure(name: str, interval: Interval, n_nodes: int) -> PageMeasure:
    """Return precision or recall of a class; it is undefined if it refers to no node."""
    return interval_measure(name, interval) if n_nodes else PageMeasure(name, None)


def interval_measure(name: str, interval: Interval) -> PageMeasure:
    """Return an interval in the page's form, with ``None`` for numbers that are not finite."""
    value, low, high = (
        part if math.isfinite(part) else None
        for part in (interval.value, interval.low, interval.high)
    )
    return PageMeasure(name, value, low, high)


# How the graph was learned

_CURVES = ("loss", "validation_loss", "validation_accuracy")


def build_learning(
    history: History,
    certificate: Certificate | None,
    chosen: Mapping[str, Any],
    rounds: tuple[Round, ...] = (),
    metric: tuple[tuple[str, float], ...] = (),
) -> Learning:
    """Return training curves, the sentences of the certificate and the fit's automatic choices."""
    return Learning(
        rounds=rounds,
        metric=metric,
        curves=training_curves(history),
        certificate=tuple(certificate_sentences(certificate)),
        choices=describe_choices(chosen),
    )


def training_curves(history: History) -> tuple[Curve, ...]:
    """Return the training stages of all tracks, in order.

    A stage of the history is named ``classifier`` and the number of its round, after the name of
    its track if there are several.
    """
    curves: list[Curve] = []
    starts = [k for k, epoch in enumerate(history.column("epoch")) if epoch == 0]
    for start, stop in zip(starts, [*starts[1:], len(history)]):
        columns = {
            column: [_finite_or_none(history[k].get(column)) for k in range(start, stop)]
            for column in _CURVES
            if column in history[start]
        }
        name = str(history[start]["stage"]).replace("classifier", "round")
        curves.append(Curve(name, columns))
    return tuple(curves)


def _finite_or_none(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None


_CHOICE_NAMES = {
    "mixture": "tracks and their weights",
    "signal": "how features are compared",
    "n_rounds": "rounds of that track",
}


def describe_choices(chosen: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Return the fit's automatic choices as pairs (choice, value) of text.

    Examples
    --------
    >>> describe_choices({"mixture": "learned 80%, far 20%", "n_rounds": 3})
    (('tracks and their weights', 'learned 80%, far 20%'), ('rounds of that track', '3'))
    """
    return tuple((_CHOICE_NAMES.get(name, name), str(value)) for name, value in chosen.items())


MAX_PICTURE_CELLS = 180  # rows and columns of a picture; larger graphs are averaged in blocks


@dataclass(frozen=True, eq=False)
class MatrixPictures:
    """Pictures of the adjacency matrices of several rounds, with rows ordered by class."""

    values: np.ndarray  # rounds x cells x cells, 0 to 255
    names: tuple[str, ...]  # of the rounds
    starts: Int[np.ndarray, "c"]  # first cell of each class


def sort_by_class(classes: Int[np.ndarray, "n"]) -> Int[np.ndarray, "n"]:
    """Return the numbers of the nodes sorted by class, unknown classes last."""
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
    """Return the graphs as pictures on one scale: the square root of the mean weight."""
    n_nodes = graphs[0][1].shape[0]
    n_cells, order = min(n_nodes, MAX_PICTURE_CELLS), sort_by_class(classes)
    sums = np.stack([block_means(graph, order, n_cells) for _, graph in graphs])
    roots = np.sqrt(np.maximum(sums, 0.0))
    top = float(np.quantile(roots[roots > 0], 0.99)) if (roots > 0).any() else 1.0
    sorted_classes = classes[order]
    starts = np.flatnonzero(np.r_[True, sorted_classes[1:] != sorted_classes[:-1]])
    return MatrixPictures(
        quantize(roots, np.uint8, top),
        tuple(name for name, _ in graphs),
        (starts * n_cells) // max(n_nodes, 1),
    )


def count_changes(graphs: Sequence[sp.csr_matrix]) -> list[tuple[int, int]]:
    """Return the numbers of links that each graph adds to and removes from the one before it.

    Examples
    --------
    >>> one, two = (sp.csr_matrix(np.array(m)) for m in ([[0, 1.0], [1.0, 0]], [[0, 0.0], [0, 0]]))
    >>> count_changes([one, two])
    [(0, 1)]
    """
    found = []
    for before, after in pairwise(graphs):
        fate = np.bincount(merge_links(after, before).fate, minlength=3)
        found.append((int(fate[1]), int(fate[2])))
    return found
