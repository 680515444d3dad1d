"""What a user should know of a run besides its numbers: missing classes, doubtful labels."""

import numpy as np

from glnn.report.predictions import shown_probabilities
from glnn.report.results import FitResults
from glnn.report.words import count, raw_lines, unjudged_advice


def closing_lines(results: FitResults) -> list[str]:
    """Return what a user should know besides numbers: notes, missing classes, doubtful labels."""
    notes = [] if results.certificate is None else list(results.certificate.notes)
    if results.settings.get("chosen", {}).get("source") == "features":
        notes.append("the given graph was left out: features alone serve the labels better")
    notes += [] if results.estimate is None else list(results.estimate.notes)
    return [*notes, *warning_lines(results), *suspect_lines(results)]


def warning_lines(results: FitResults) -> list[str]:
    """Return what a reader of predictions must know: raw probabilities, missing classes."""
    missing = never_predicted(results)
    return [*raw_lines(results.calibration), *([] if missing is None else [missing])]


def unjudged_lines(results: FitResults, *, compare: bool, n_processes: int) -> list[str]:
    """Return why nothing is judged or compared where a user may expect it, and what to do.

    Parameters
    ----------
    results
        The run.
    compare
        Whether plain methods were asked for.
    n_processes
        Processes of the fit; more than one make no estimate.
    """
    if results.split.test.size or results.estimate is not None:
        return []
    lines = []
    if n_processes > 1:
        lines.append(
            "no estimate: a fit over several processes is not judged on hidden labels. Fit in one "
            "process, or keep labels for a test with --labels-per-class"
        )
    elif compare:
        lines.append(f"nothing to compare on: every label trained. {unjudged_advice(results)}")
    return lines


def never_predicted(results: FitResults) -> str | None:
    """Return a line on the classes that no node is shown to have, if there are such."""
    shown, _ = shown_probabilities(results)
    missing = np.setdiff1d(results.classes, results.classes[shown.argmax(1)])
    if not missing.size:
        return None
    names = ", ".join(results.data.class_names[number] for number in missing)
    return f"never predicted, at no node at all: {names}"


def suspect_lines(results: FitResults, most: int = 5) -> list[str]:
    """Return the likeliest mistakes among the given labels, in words."""
    estimate = results.estimate
    if estimate is None or not results.suspects:
        return []
    data = results.data
    n_found = len(results.suspects)
    without = "it" if n_found == 1 else "them"
    lines = [f"{count(n_found, 'given label')} may be wrong: fits without {without} say otherwise"]
    for node in results.suspects[:most]:
        row = estimate.probabilities[node]
        given = data.class_names[data.labels[node]]
        said = data.class_names[results.classes[row.argmax()]]
        lines.append(f"  {data.node_ids[node]}: given {given}, predicted {said} ({row.max():.0%})")
    if n_found > most:
        lines.append(f"  and {n_found - most} more: see suspect_labels in metrics.json")
    return lines
