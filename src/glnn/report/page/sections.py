"""The numbers and sentences of each section of the page, in the form its template needs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from jaxtyping import Float, Int, UInt8

from glnn.quality import Evaluation
from glnn.quality.metrics import Interval, accuracy_interval
from glnn.report.columns import OTHER_VALUES
from glnn.report.page.subset import quantize
from glnn.report.results import Results
from glnn.report.text import format_count, format_share, verdict_line, warning_lines

_NONE = Interval(np.nan, np.nan, np.nan)


# Accuracy by group of a column

_MIN_LABELS = 10  # labels that a group must have for its accuracy to be listed


@dataclass(frozen=True)
class Slice:
    """The accuracy on the rows of one group of a column."""

    column: int  # index among the columns of the results
    group: int
    name: str  # such as "city: Rome"
    n_labels: int
    accuracy: Interval
    is_low: bool  # whether the interval lies below the accuracy on all labels


def find_slices(results: Results) -> list[Slice]:
    """Return the accuracy by group of every column, the lowest first.

    Only labels that the fit had not seen count; groups with few of them are left out.
    """
    evaluation, found = results.evaluation, []
    if evaluation is None:
        return []
    nodes = evaluation.held_out.hidden_nodes
    right = results.predictions[nodes] == results.labels[nodes]
    for number, column in enumerate(results.columns):
        names, group = column.groups()
        n_labels = np.bincount(group[nodes], minlength=len(names))
        n_right = np.bincount(group[nodes], right, minlength=len(names)).astype(int)
        for k, name in enumerate(names):
            if _MIN_LABELS <= n_labels[k] < len(nodes) and name != OTHER_VALUES:
                share = accuracy_interval(int(n_right[k]), int(n_labels[k]))
                is_low = bool(share.high < right.mean())
                where = f"{column.name}: {name}"
                found.append(Slice(number, k, where, int(n_labels[k]), share, is_low))
    return sorted(found, key=lambda one: (one.accuracy.value, one.accuracy.high))


# Verdict

_TONES = {"good": "good", "chance": "bad"}  # colour of the verdict; of all others: caution
_METRIC_NAMES = {
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "log_loss": "log loss",
    "brier": "Brier score",
    "auc": "area under the curve",
    "calibration_error": "calibration error",
}
_WEAK = 0.5  # a class with a recall or precision below this is called weak


def verdict_section(results: Results) -> dict[str, Any]:
    """Return the verdict, the scores of all methods and their scale, metrics and warnings."""
    evaluation = results.evaluation
    section = {"verdict": verdict_line(results), "warnings": warning_sentences(results)}
    if evaluation is None:
        return section | {"tone": "caution", "scores": ()}
    metrics = evaluation.own.metrics
    measures = [(title, metrics[name]) for name, title in _METRIC_NAMES.items() if name in metrics]
    if evaluation.coverage is not None:
        measures.append(("prediction sets with the true class", evaluation.coverage))
    scores = (evaluation.own, *evaluation.others)
    return section | {
        "tone": _TONES.get(evaluation.verdict.kind, "caution"),
        "scores": scores,
        "scale": interval_scale([score.metrics["accuracy"] for score in scores]),
        "measures": measures,
    }


def interval_scale(intervals: Sequence[Interval]) -> tuple[float, float]:
    """Return the bounds, in steps of ten percent, of a scale for all intervals."""
    low = math.floor(10 * min((one.low for one in intervals), default=0.0))
    high = math.ceil(10 * max((one.high for one in intervals), default=1.0))
    return low / 10, min(1.0, max(high, low + 1) / 10)


def class_quality(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return precision and recall of each class; without a number where no node counts."""
    n_true = evaluation.confusion.sum(1).tolist()
    n_predicted = evaluation.confusion.sum(0).tolist()
    return [
        {
            "name": str(name),
            "n_nodes": n_true[k],
            "recall": parts["recall"] if n_true[k] else _NONE,
            "precision": parts["precision"] if n_predicted[k] else _NONE,
        }
        for k, (name, parts) in enumerate(zip(evaluation.classes, evaluation.per_class))
    ]


def warning_sentences(results: Results) -> list[str]:
    """Return all warnings, and a sentence on every weak class."""
    sentences = [_as_sentence(line) for line in warning_lines(results)]
    return sentences if results.evaluation is None else sentences + weak_classes(results.evaluation)


def _as_sentence(line: str) -> str:
    return f"{line[:1].upper()}{line[1:].rstrip('.')}."


def weak_classes(evaluation: Evaluation) -> list[str]:
    """Return a sentence on every class with low recall or precision.

    Classes that are never predicted are left out, because a note of the evaluation names them.
    """
    sentences = []
    for one in class_quality(evaluation):
        recall, precision, weak = one["recall"].value, one["precision"].value, []
        if recall < _WEAK:
            weak.append(f"only {100 * recall:.0f} % of its rows are recognised")
        if precision < _WEAK:
            weak.append(f"only {100 * precision:.0f} % of its predictions are right")
        if weak and not np.isnan(precision):
            about = f"{', '.join(weak)} ({one['n_nodes']} rows)"
            sentences.append(f"Weak class {one['name']}: {about}.")
    return sentences


# Errors

_N_HEATS = 8  # colours of the confusion matrix


def error_section(results: Results) -> dict[str, Any]:
    """Return the rows of the confusion matrix with their recall, and the precisions."""
    evaluation = results.evaluation
    if evaluation is None:
        return {"confusion": [], "precisions": []}
    quality, confusion = class_quality(evaluation), evaluation.confusion
    n_true = np.maximum(confusion.sum(1, keepdims=True), 1)
    heats = np.ceil((_N_HEATS - 1) * confusion / n_true).astype(int)
    numbers = [results.class_names.index(one["name"]) for one in quality]
    lines = [
        one | {"number": number, "cells": list(zip(counts, colours, numbers))}
        for one, number, counts, colours in zip(
            quality, numbers, confusion.tolist(), heats.tolist()
        )
    ]
    return {"confusion": lines, "precisions": [one["precision"] for one in quality]}


# How the graph was learned

_CHOICE_NAMES = {
    "mixture": "models and their weights",
    "learned graph": "the graph shown",
    "signal": "how rows are compared",
    "n_rounds": "rounds of graph learning",
}


def learning_section(results: Results) -> dict[str, Any]:
    """Return the fit's automatic choices and the pictures of its graphs."""
    is_known = bool((results.labels >= 0).all())
    graphs = {} if results.given is None else {"given graph": results.given}
    graphs |= {f"after {r.name}": r.graph for r in results.rounds}
    if not results.rounds:
        graphs["learned graph"] = results.adjacency
    order = results.labels if is_known else results.predictions
    matrices, starts = matrix_pictures(list(graphs.values()), order)
    choices = {_CHOICE_NAMES.get(name, name): str(part) for name, part in results.choices.items()}
    return {
        "choices": choices,
        "matrices": matrices,
        "matrix_names": list(graphs),
        "matrix_starts": starts[1:],
        "matrix_order": "known labels" if is_known else "predictions",
    }


def training_curves(history: Sequence[Mapping[str, Any]]) -> list[tuple[str, pd.DataFrame]]:
    """Return name and records of the training stages of all tracks, in order.

    A stage of the history is named ``classifier`` and the number of its round, after the name of
    its track if there are several.
    """
    if not history:
        return []
    stages = pd.DataFrame(list(history)).groupby("stage", sort=False)
    return [
        (str(stage).replace("classifier", "round"), records.dropna(axis=1, how="all"))
        for stage, records in stages
    ]


MAX_PICTURE_CELLS = 180  # rows and columns of a picture; larger graphs are averaged in blocks


def block_means(
    graph: sp.csr_matrix, order: Int[np.ndarray, "n"], n_cells: int
) -> Float[np.ndarray, "k k"]:
    """Return the mean weight of the pairs in each block of the reordered matrix."""
    n_nodes = graph.shape[0]
    cell = np.arange(n_nodes) * n_cells // max(n_nodes, 1)  # of each node in the order
    blocks = sp.csr_matrix((np.ones(n_nodes), (cell, order)), shape=(n_cells, n_nodes))
    sizes = np.bincount(cell, minlength=n_cells).astype(float)
    return np.asarray((blocks @ graph @ blocks.T).toarray() / np.outer(sizes, sizes))


def matrix_pictures(
    graphs: Sequence[sp.csr_matrix], classes: Int[np.ndarray, "n"]
) -> tuple[UInt8[np.ndarray, "r k k"], list[int]]:
    """Return the graphs as pictures ordered by class, and the first cell of each class.

    All are on one scale: the square root of the mean weight.
    """
    n_nodes = len(classes)
    n_cells, order = min(n_nodes, MAX_PICTURE_CELLS), np.argsort(classes, kind="stable")
    roots = np.sqrt(np.maximum([block_means(graph, order, n_cells) for graph in graphs], 0.0))
    top = float(np.quantile(roots[roots > 0], 0.99)) if (roots > 0).any() else 1.0
    starts = np.flatnonzero(np.r_[True, np.diff(classes[order]) != 0])
    return quantize(roots, np.uint8, top), ((starts * n_cells) // max(n_nodes, 1)).tolist()


# The model card

Card = list[tuple[str, list[str]]]  # headings and their lines


def model_card(results: Results, slices: Sequence[Slice]) -> Card:
    """Return the headings of the card, each with its lines."""
    facts, split = results.facts, results.split
    seen = results.labels[results.seen]
    counts = np.bincount(seen, minlength=len(results.class_names))
    classes = ", ".join(f"{name} ({n:,})" for name, n in zip(results.class_names, counts))
    data = [f"{results.name}: {format_count(results.n_nodes, 'row')}."]
    if results.columns:
        data[0] = data[0][:-1] + f", {format_count(len(results.columns), 'column')} shown here."
    if results.given is not None:
        data.append(f"A given graph with {results.graph_facts.n_given or 0:,} links.")
    data.append(f"{format_count(len(seen), 'label')} used in the fit: {classes}.")
    data += [f"{name}: {facts[name]}." for name in ("data digest",) if name in facts]
    quality = [_as_sentence(verdict_line(results))]
    if results.evaluation is not None:
        shown = format_share(results.evaluation.own.metrics["accuracy"])
        on = "test labels" if split.test.size else "labels hidden in turn"
        quality.append(f"Accuracy {shown} on {len(results.evaluation.own.predictions):,} {on}.")
    limits = [
        "Only the classes above can be predicted; a row of another kind still gets one of them.",
        "The accuracy may be lower on rows that differ from the labelled ones.",
        *warning_sentences(results),
        *(f"{one.name}: accuracy {format_share(one.accuracy)}." for one in slices if one.is_low),
    ]
    if results.suspects:
        limits.append(f"{format_count(len(results.suspects), 'given label')} may be wrong.")
    return [
        ("Data", data),
        ("Date", [facts.get("date", "unknown")]),
        ("Intended use", ["Labels for the rows of this table and for new rows of the same kind."]),
        ("Quality", quality),
        ("Limits", limits),
        ("Made with", [f"glnn {facts.get('glnn', '')}".strip(), *filter(None, [results.command])]),
    ]


def card_markdown(results: Results, card: Card) -> str:
    """Return the card as a Markdown file."""
    parts = [f"# Model card: {results.name}"]
    for heading, lines in card:
        parts += [f"## {heading}", "\n".join(f"- {line}" for line in lines)]
    return "\n\n".join(parts).replace("\N{NO-BREAK SPACE}", " ") + "\n"
