"""Results in plain words, shared by the screen, the Markdown and the HTML page."""

import platform
from importlib.metadata import PackageNotFoundError, version

import numpy as np

from glnn.quality.calibration import Calibration
from glnn.quality.estimate import FEWEST
from glnn.report.results import FitResults, GraphFacts, shown_probabilities
from glnn.solver import Certificate

# --- words: Results in plain words, shared by the screen, the Markdown and the HTML page

NOTHING = "–"
"""What stands in the place of a number that there is not."""

RAW = "probabilities are the network's own, not calibrated by hidden labels: often far too sure"
"""Of a fit that hid no label."""


def percent(share: float | None) -> str:
    """Return a share as a percentage with one decimal, or a dash.

    Examples
    --------
    >>> percent(0.98765), percent(None)
    ('98.8 %', '–')
    """
    return NOTHING if share is None else f"{100 * share:.1f} %"


def count(number: int, noun: str) -> str:
    """Return a number with its noun.

    Examples
    --------
    >>> count(1, "edge"), count(1200, "edge")
    ('1 edge', '1,200 edges')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def fact_rows(facts: GraphFacts, certificate: Certificate | None) -> list[tuple[str, str]]:
    """Return what to show of a learned graph, as pairs of a word and its value."""
    rows = [
        ("edges", f"{facts.n_edges:,}"),
        ("mean degree", f"{facts.mean_degree:.2f}"),
        ("nodes without an edge", f"{facts.n_isolated:,}"),
        ("connected parts", f"{facts.n_components:,}"),
    ]
    if facts.equal_labels is not None:
        rows.append(("edges that join equal labels", equal_label_words(facts)))
    if facts.n_given is not None:
        rows.append(("given edges kept", f"{facts.n_kept:,} of {facts.n_given:,}"))
        rows.append(("edges added", f"{facts.n_added:,}"))
    rows.append(
        ("graph problem, not predictions", "none" if certificate is None else str(certificate))
    )
    return rows


def equal_label_words(facts: GraphFacts) -> str:
    """Return the share of edges that join equal labels, of how many, and what chance gives."""
    share, chance = percent(facts.equal_labels), percent(facts.equal_by_chance)
    return f"{share} (by chance {chance}) of {facts.n_labelled_edges:,} between test nodes"


def verdict_line(results: FitResults) -> str:
    """Return how good the answer is in one sentence, which opens all that is shown of a run."""
    if results.estimate is not None:
        return results.estimate.verdict.sentence
    if results.tested is not None:
        return results.tested.verdict.sentence
    n_train = int(results.split.train.size)
    if n_train < FEWEST:
        return f"too few labels to tell: {n_train}"
    why = "none can be hidden" if has_single_labels(results) else "no estimate was made"
    return f"not judged: every label trained, and {why}"


def unjudged_advice(results: FitResults) -> str:
    """Return what to do where no label is hidden and the answer cannot be judged."""
    if has_single_labels(results):
        return (
            "Each class has a single label, and a fit without it would not know the class: label "
            f"more nodes, {FEWEST} or more in all."
        )
    return (
        "Fit in one process, to the end and without --no-estimate, or keep labels for a test with "
        "--labels-per-class."
    )


def has_single_labels(results: FitResults) -> bool:
    """Return whether no class has a second label, so that none can be hidden."""
    counts = np.bincount(results.data.labels[results.split.train], minlength=1)
    return int(counts.max()) < 2


def raw_lines(calibration: Calibration | None) -> list[str]:
    """Return a line that marks probabilities which no hidden label has calibrated, or none."""
    return [RAW] if calibration is None or calibration.is_identity else []


def certificate_sentences(certificate: Certificate | None) -> list[str]:
    """Return what is proven about the graph, for someone who knows no duality."""
    if certificate is None:
        return ["This preset moves the graph by gradient steps; nothing is proven about it."]
    scope = (
        "Every pair of nodes was checked"
        if certificate.support == "all"
        else f"{count(certificate.n_pairs_checked, 'candidate pair')} "
        f"({percent(certificate.pairs_checked)} of all pairs) may become edges, and each of them "
        "was checked"
    )
    verdict = (
        "The graph is the best one for its objective"
        if certificate.converged
        else "The graph is NOT yet the best one for its objective"
    )
    rounding = 1e-15 * max(1.0, abs(certificate.objective))
    return [
        f"{verdict}: no weight is further than {certificate.max_violation:.1e} from what the "
        "optimality conditions demand.",
        f"{scope}.",
        f"No other graph on these pairs can lower the objective by more than "
        f"{max(certificate.gap, rounding):.1e} (its value is {certificate.objective:.6g}).",
        *certificate.notes,
        "All this is about the graph problem. Whether predictions are right, it does not say.",
    ]


def label_sentence(results: FitResults) -> str:
    """Return how many labels were used for what."""
    split = results.split
    parts = [f"{count(split.train.size, 'label')} for training"]
    if split.val.size:
        parts.append(f"{split.val.size:,} to choose the epoch")
    parts.append(f"{split.test.size:,} for the test" if split.test.size else "none left to test")
    return f"{results.data.name}: {', '.join(parts)} (split '{split.name}', seed {split.seed})"


# --- remarks: What a user should know of a run besides its numbers: missing classes, doubtful labe


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


# --- versions: Versions of what a result depends on

PACKAGES = ("glnn", "numpy", "scipy", "torch", "scikit-learn")
EXTRAS = {
    "matplotlib": "report",
    "pyarrow": "tables",
    "openpyxl": "tables",
    "torch_geometric": "pyg",
    "faiss-cpu": "ann",
    "optuna": "tune",
    "tensorboard": "tensorboard",
}
"""Optional packages, and the extra of glnn that brings each."""


def version_of(package: str) -> str | None:
    """Return the installed version of a package, or nothing.

    Examples
    --------
    >>> version_of("no such package") is None
    True
    """
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def versions() -> dict[str, str]:
    """Return Python's version and those of the packages that results depend on."""
    found = {package: version_of(package) or "not installed" for package in PACKAGES}
    return {"python": platform.python_version(), **found}
