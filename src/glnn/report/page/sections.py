"""What the templates of the sections need, worked out from the page's data."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Int

from glnn.report.page.data import Evaluation, Measure, PageData
from glnn.report.page.numbers import interval_scale
from glnn.report.page.shown import Shown
from glnn.report.words import count

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
