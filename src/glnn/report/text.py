"""Results as text for the terminal and the page, as tables, and the versions of packages."""

import platform
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from glnn.estimator import GLNNClassifier
from glnn.quality import Evaluation
from glnn.quality.metrics import Interval
from glnn.quality.verdict import MIN_LABELS
from glnn.report.results import Results

DASH = "–"  # placeholder for a missing number
_NBSP = "\N{NO-BREAK SPACE}"

UNCALIBRATED = (
    "probabilities are not calibrated on held-out labels; networks are often overconfident"
)


def format_percent(share: float | None) -> str:
    """Return a share as a percentage with one decimal, or a dash.

    Examples
    --------
    >>> format_percent(0.98765), format_percent(None), format_percent(float("nan"))
    ('98.8 %', '–', '–')
    """
    return DASH if share is None or np.isnan(share) else f"{100 * share:.1f} %"


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> format_count(1, "edge"), format_count(1200, "edge")
    ('1 edge', '1,200 edges')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_share(one: Interval) -> str:
    r"""Return a share with its interval in percent.

    Examples
    --------
    >>> format_share(Interval(0.881, 0.85, 0.912)), format_share(Interval(*3 * [float("nan")]))
    ('88.1\xa0% [85.0,\xa091.2]', '–')
    """
    value = format_percent(one.value).replace(" ", _NBSP)
    if np.isnan(one.low):
        return value
    return f"{value} [{100 * one.low:.1f},{_NBSP}{100 * one.high:.1f}]"


def format_lead(one: Interval) -> str:
    r"""Return a difference of shares in percentage points, with its sign.

    Examples
    --------
    >>> format_lead(Interval(0.02, -0.01, 0.05))
    '+2.0 [-1.0,\xa0+5.0]'
    """
    return f"{100 * one.value:+.1f} [{100 * one.low:+.1f},{_NBSP}{100 * one.high:+.1f}]"


def format_number(one: Interval) -> str:
    r"""Return a number with its interval, without a percent sign.

    Examples
    --------
    >>> format_number(Interval(0.31234, 0.25, 0.4)), format_number(Interval(*3 * [float("nan")]))
    ('0.312 [0.250,\xa00.400]', '–')
    """
    if np.isnan(one.value):
        return DASH
    bounds = f" [{one.low:.3f},{_NBSP}{one.high:.3f}]" if one.low == one.low else ""
    return f"{one.value:.3f}{bounds}"


def describe_equal_labels(results: Results) -> str:
    """Return the share of edges that join equal labels, and the share expected by chance."""
    facts = results.graph_facts
    share, chance = format_percent(facts.equal_labels), format_percent(facts.equal_by_chance)
    if facts.equal_given is not None:
        chance += f"; given graph {format_percent(facts.equal_given)}"
    return f"{share} (by chance {chance}) of {facts.n_labelled_edges:,} between test nodes"


def describe_graph(results: Results) -> str:
    """Return a line on the learned graph."""
    facts = results.graph_facts
    words = f"graph: {format_count(facts.n_edges, 'link')}, {facts.mean_degree:.1f} a node"
    if facts.n_isolated:
        words += f", {format_count(facts.n_isolated, 'node')} without one"
    if facts.n_given is not None:
        words += (
            f"; {facts.n_kept:,} of {facts.n_given:,} given links kept, {facts.n_added:,} added"
        )
    if facts.equal_labels is not None:
        words += f"; between equal labels: {describe_equal_labels(results)}"
    return words


def describe_suggestion(results: Results, node: int) -> str:
    """Return why a node is suggested: the next class, and how many rows its label may reach."""
    row = results.probabilities[node]
    second = int(np.argsort(-row, kind="stable")[1])
    ends = results.adjacency[node].indices
    ends = ends[ends != node]
    n_open = int((~results.seen[ends]).sum())
    reach = f"{format_count(len(ends), 'link')}, {n_open} to unlabelled rows"
    return f"or {results.class_names[second]} ({row[second]:.0%}); {reach}"


def verdict_line(results: Results) -> str:
    """Return the verdict on a run in one sentence."""
    if results.evaluation is not None:
        return results.evaluation.verdict.sentence
    n_train = int(results.split.train.size)
    if n_train < MIN_LABELS:
        return f"too few labels to tell: {n_train}"
    why = "none can be held out" if results.has_single_labels else "no estimate was made"
    return f"not evaluated: all labels were used for training, and {why}"


def evaluation_advice(results: Results) -> str:
    """Return what to do to have a fit evaluated that was not."""
    if results.has_single_labels:
        return (
            "Each class has a single label, which cannot be held out: label more nodes, "
            f"{MIN_LABELS} or more in all."
        )
    return (
        "Fit in one process, to the end and without --folds 0, or keep labels for a test with "
        "--labels-per-class. In Python, run glnn.evaluate on the same data."
    )


def label_sentence(results: Results) -> str:
    """Return how many labels were used for training, validation and test."""
    split = results.split
    n_train = format_count(split.train.size, "label")
    if not split.test.size and not split.val.size:
        return f"{results.name}: {n_train}, all used for training"
    parts = [f"{n_train} for training"]
    if split.val.size:
        parts.append(f"{split.val.size:,} to choose the epoch")
    parts.append(f"{split.test.size:,} for the test" if split.test.size else "none for the test")
    return f"{results.name}: {', '.join(parts)} (split '{split.name}', seed {split.seed})"


# Notes and warnings


def final_notes(results: Results, *, verbose: bool) -> list[str]:
    """Return the notes on a run: warnings, labels that disagree with the model.

    With ``verbose`` also the choices of the fit and the notes of the solver.
    """
    notes = [*warning_lines(results), *suspect_lines(results)]
    if verbose:
        notes += [f"{name}: {value}" for name, value in results.choices.items()]
    if verbose and results.certificate is not None:
        notes += [f"certificate: {results.certificate}", *results.certificate.notes]
    return notes


def warning_lines(results: Results) -> list[str]:
    """Return the notes of the evaluation, and warnings: not calibrated, classes not predicted."""
    lines = [] if results.evaluation is None else list(results.evaluation.notes)
    if not results.is_calibrated:
        lines.append(UNCALIBRATED)
    known = results.classes if results.classes is not None else np.arange(len(results.class_names))
    missing = np.setdiff1d(known, results.predictions)
    if missing.size:
        names = " or ".join(results.class_names[number] for number in missing)
        lines.append(f"no row is predicted to be {names}")
    return lines


def suspect_lines(results: Results, most: int = 5) -> list[str]:
    """Return lines on the given labels that disagree most with the model."""
    n_found = len(results.suspects)
    if not n_found:
        return []
    verb, without = ("disagrees", "it") if n_found == 1 else ("disagree", "them")
    lines = [
        f"{format_count(n_found, 'given label')} {verb} with the model, which predicts another "
        f"class without {without}"
    ]
    for node in results.suspects[:most]:
        row, names = results.probabilities[node], results.class_names
        given, predicted = names[results.labels[node]], names[row.argmax()]
        line = f"  {results.ids[node]}: given {given}, predicted {predicted} ({row.max():.0%})"
        lines.append(line)
    if n_found > most:
        lines.append(f"  and {n_found - most} more: see suspect_labels in metrics.json")
    return lines


# Tables for the terminal


def score_table(evaluation: Evaluation) -> Table:
    """Return the scores of the fit and of its rivals on the same labels, the best in bold."""
    n_folds, n_labels = len(evaluation.folds.hidden), len(evaluation.own.predictions)
    title = f"On {format_count(n_labels, 'test label')}, in %"
    if n_folds > 1:
        title = f"On {n_labels:,} hidden labels, {n_folds} folds, in %"
    columns = ("accuracy", "balanced", "lead of this fit", "seconds")
    table = number_table("method", *columns, title=title)
    scores = (evaluation.own, *evaluation.others)
    best = max(score.accuracy for score in scores)
    for score in scores:
        table.add_row(
            score.title,
            _format_interval(score.metrics["accuracy"]),
            f"{100 * score.metrics['balanced_accuracy'].value:.1f}",
            "" if score.difference is None else _format_interval(score.difference, "+"),
            f"{score.seconds:.1f}",
            style="bold" if score.accuracy == best else None,
        )
    return table


def _format_interval(one: Interval, sign: str = "") -> str:
    value, low, high = (100 * part for part in (one.value, one.low, one.high))
    return f"{value:{sign}.1f} [{low:{sign}.0f}, {high:{sign}.0f}]"


def column_table(columns: Sequence[tuple[str, str]]) -> Table:
    """Return what was done with each column of a table; neighbours that are alike share a line."""
    table = Table("column", "read as", title="Columns", title_justify="left")
    for what, group in groupby(columns, key=lambda row: row[1]):
        names = [name for name, _ in group]
        shown = ", ".join(names)
        if len(names) > 4:
            shown = f"{names[0]}, {names[1]}, ..., {names[-1]} ({len(names):,} columns)"
        table.add_row(shown, what)
    return table


def suggestions(results: Results, run: Path, k: int) -> list[dict[str, Any]]:
    """Return the ``k`` rows to label next, best first: id, prediction and reason."""
    nodes: Any = results.suggestions[:k]
    if len(nodes) < min(k, int((~results.seen).sum())):  # more than are stored
        nodes = GLNNClassifier.load(run).suggest_labels(k)["node"].tolist()
    return [
        {
            "id": str(results.ids[node]),
            "predicted": results.class_names[results.predictions[node]],
            "probability": float(results.probabilities[node].max()),
            "why": describe_suggestion(results, node),
        }
        for node in nodes
    ]


def suggestion_table(found: list[dict[str, Any]], id_name: str) -> Table:
    """Return a table of rows to label next."""
    title, heads = "Label these rows next, best first", (id_name, "predicted", "probability", "why")
    table = Table(*heads, title=title, title_justify="left", box=SIMPLE, pad_edge=False)
    for one in found:
        name, predicted, probability, why = one.values()
        table.add_row(name, predicted, f"{probability:.0%}", why)
    return table


def number_table(first: str, *columns: str, title: str) -> Table:
    """Return an empty table with right-aligned columns after the first."""
    table = Table(first, title=title, title_justify="left", min_width=len(title) + 4)
    for column in columns:
        table.add_column(column, justify="right")
    return table


# Versions of packages

PACKAGES = ("glnn", "numpy", "scipy", "torch", "scikit-learn")


def find_version(package: str) -> str | None:
    """Return the installed version of a package, or ``None``."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    found = {package: find_version(package) or "not installed" for package in PACKAGES}
    return {"python": platform.python_version(), **found}
