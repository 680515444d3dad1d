"""Results as text for the terminal and the HTML page, and the versions of packages."""

import platform
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from glnn.quality.calibration import Calibration
from glnn.quality.verdict import MIN_LABELS
from glnn.report.results import FitResults, GraphFacts, merge_held_out
from glnn.solver import Certificate

DASH = "–"  # placeholder for a missing number

UNCALIBRATED = (
    "probabilities are not calibrated on held-out labels; networks are often overconfident"
)


def format_percent(share: float | None) -> str:
    """Return a share as a percentage with one decimal, or a dash.

    Examples
    --------
    >>> format_percent(0.98765), format_percent(None)
    ('98.8 %', '–')
    """
    return DASH if share is None else f"{100 * share:.1f} %"


def format_count(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> format_count(1, "edge"), format_count(1200, "edge")
    ('1 edge', '1,200 edges')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def fact_rows(facts: GraphFacts, certificate: Certificate | None) -> list[tuple[str, str]]:
    """Return the statistics of a learned graph as pairs of a name and a value."""
    rows = [
        ("edges", f"{facts.n_edges:,}"),
        ("mean degree", f"{facts.mean_degree:.2f}"),
        ("nodes without an edge", f"{facts.n_isolated:,}"),
        ("connected components", f"{facts.n_components:,}"),
    ]
    if facts.equal_labels is not None:
        rows.append(("edges that join equal labels", describe_equal_labels(facts)))
    if facts.n_given is not None:
        rows.append(("given edges kept", f"{facts.n_kept:,} of {facts.n_given:,}"))
        rows.append(("edges added", f"{facts.n_added:,}"))
    rows.append(
        ("certificate (graph, not accuracy)", "none" if certificate is None else str(certificate))
    )
    return rows


def describe_equal_labels(facts: GraphFacts) -> str:
    """Return the share of edges that join equal labels, and the share expected by chance."""
    share, chance = format_percent(facts.equal_labels), format_percent(facts.equal_by_chance)
    return f"{share} (by chance {chance}) of {facts.n_labelled_edges:,} between test nodes"


def verdict_line(results: FitResults) -> str:
    """Return the verdict on a run in one sentence."""
    if results.verdict is not None:
        return results.verdict.sentence
    n_train = int(results.split.train.size)
    if n_train < MIN_LABELS:
        return f"too few labels to tell: {n_train}"
    why = "none can be held out" if has_single_labels(results) else "no estimate was made"
    return f"not evaluated: all labels were used for training, and {why}"


def evaluation_advice(results: FitResults) -> str:
    """Return what to do to have a run evaluated that was not."""
    if has_single_labels(results):
        return (
            "Each class has a single label, which cannot be held out: label more nodes, "
            f"{MIN_LABELS} or more in all."
        )
    return (
        "Fit in one process, to the end and without --no-estimate, or keep labels for a test with "
        "--labels-per-class."
    )


def has_single_labels(results: FitResults) -> bool:
    """Return whether every class has at most one training label, so that none can be held out."""
    counts = np.bincount(results.data.labels[results.split.train], minlength=1)
    return int(counts.max()) < 2


def uncalibrated_lines(calibration: Calibration | None) -> list[str]:
    """Return a warning that probabilities are not calibrated, or no line if they are."""
    return [UNCALIBRATED] if calibration is None or calibration.is_identity else []


def certificate_sentences(certificate: Certificate | None) -> list[str]:
    """Return what is proven about the graph, in terms that need no optimization theory."""
    if certificate is None:
        return ["This preset changes the graph by gradient steps; nothing is proven about it."]
    scope = (
        "Every pair of nodes was checked"
        if certificate.support == "all"
        else f"{format_count(certificate.n_pairs_checked, 'candidate pair')} "
        f"({format_percent(certificate.pairs_checked)} of all pairs) may become edges, and each "
        "of them was checked"
    )
    verdict = (
        "The graph is the best one for its objective"
        if certificate.converged
        else "The graph is NOT yet the best one for its objective"
    )
    rounding = 1e-15 * max(1.0, abs(certificate.objective))
    return [
        f"{verdict}: no weight violates the optimality conditions by more than "
        f"{certificate.max_violation:.1e}.",
        f"{scope}.",
        f"No other graph on these pairs can lower the objective by more than "
        f"{max(certificate.gap, rounding):.1e} (its value is {certificate.objective:.6g}).",
        *certificate.notes,
        "This is about the graph only, not about the accuracy of the predictions.",
    ]


def label_sentence(results: FitResults) -> str:
    """Return how many labels were used for training, validation and test."""
    split = results.split
    parts = [f"{format_count(split.train.size, 'label')} for training"]
    if split.val.size:
        parts.append(f"{split.val.size:,} to choose the epoch")
    parts.append(f"{split.test.size:,} for the test" if split.test.size else "none for the test")
    return f"{results.data.name}: {', '.join(parts)} (split '{split.name}', seed {split.seed})"


# Notes and warnings


def final_notes(results: FitResults) -> list[str]:
    """Return the notes on a run: its choices, warnings, labels that disagree with the model."""
    notes = [] if results.certificate is None else list(results.certificate.notes)
    notes += mixture_lines(results)
    notes += rival_notes(results)
    notes += [] if results.estimate is None else list(results.estimate.notes)
    return [*notes, *warning_lines(results), *suspect_lines(results)]


def rival_notes(results: FitResults) -> list[str]:
    """Return the notes on rivals that were scored on the test labels, or failed to be."""
    return [score.note for score in results.scores if score.note]


def mixture_lines(results: FitResults) -> list[str]:
    """Return a line on the tracks of a fit and the trust in the given graph, if there are several.

    Tracks whose weight became negligible are not named.
    """
    if len(results.settings.get("tracks", ())) < 2:
        return []
    chosen = results.settings["chosen"]
    trust = f"; the given graph is {chosen['given graph']}" if "given graph" in chosen else ""
    return [f"mixture of tracks: {chosen['mixture']}{trust}"]


def warning_lines(results: FitResults) -> list[str]:
    """Return warnings on the predictions: not calibrated, classes that are never predicted."""
    missing = missing_class_line(results)
    return [*uncalibrated_lines(results.calibration), *([] if missing is None else [missing])]


def missing_evaluation_lines(results: FitResults, *, n_processes: int) -> list[str]:
    """Return why a run was not evaluated if the user did not ask for that, and what to do."""
    if results.verdict is not None:
        return []
    if n_processes == 1:
        return [evaluation_advice(results)] if has_single_labels(results) else []
    return [
        "no estimate: a fit with several processes is not cross-validated. Fit in one process, "
        "or keep labels for a test with --labels-per-class"
    ]


def missing_class_line(results: FitResults) -> str | None:
    """Return a line on the classes that are predicted for no node, or ``None``."""
    shown, _ = merge_held_out(results)
    missing = np.setdiff1d(results.classes, results.classes[shown.argmax(1)])
    if not missing.size:
        return None
    names = ", ".join(results.data.class_names[number] for number in missing)
    return f"classes that are predicted for no node: {names}"


def suspect_lines(results: FitResults, most: int = 5) -> list[str]:
    """Return lines on the given labels that disagree most with the model."""
    estimate = results.estimate
    if estimate is None or not results.suspects:
        return []
    data = results.data
    n_found = len(results.suspects)
    verb, without = ("disagrees", "it") if n_found == 1 else ("disagree", "them")
    lines = [
        f"{format_count(n_found, 'given label')} {verb} with the model, which predicts another "
        f"class without {without}"
    ]
    for node in results.suspects[:most]:
        row = estimate.probabilities[node]
        given = data.class_names[data.labels[node]]
        predicted = data.class_names[results.classes[row.argmax()]]
        lines.append(
            f"  {data.node_ids[node]}: given {given}, predicted {predicted} ({row.max():.0%})"
        )
    if n_found > most:
        lines.append(f"  and {n_found - most} more: see suspect_labels in metrics.json")
    return lines


# Versions of packages

PACKAGES = ("glnn", "numpy", "scipy", "torch", "scikit-learn")
EXTRAS = {  # optional packages, and the extra of glnn that installs each
    "matplotlib": "report",
    "pyarrow": "tables",
    "openpyxl": "tables",
    "torch_geometric": "pyg",
    "optuna": "tune",
    "tensorboard": "tensorboard",
}


def find_version(package: str) -> str | None:
    """Return the installed version of a package, or ``None``.

    Examples
    --------
    >>> find_version("no such package") is None
    True
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    found = {package: find_version(package) or "not installed" for package in PACKAGES}
    return {"python": platform.python_version(), **found}
