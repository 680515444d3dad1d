"""The model card of a fit: what it was made from, what it is for, and its limits."""

from collections.abc import Sequence

import numpy as np

from glnn.report.page.sections import weak_classes
from glnn.report.page.slices import Slice
from glnn.report.results import Results
from glnn.report.text import format_count, format_share, verdict_line, warning_lines

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
    verdict = verdict_line(results).rstrip(".")
    quality = [f"{verdict[:1].upper()}{verdict[1:]}."]
    if results.evaluation is not None:
        shown = format_share(results.evaluation.own.metrics["accuracy"])
        on = "test labels" if split.test.size else "labels hidden in turn"
        quality.append(f"Accuracy {shown} on {len(results.evaluation.own.predictions):,} {on}.")
    limits = [
        "It knows the classes above only; a row of another kind still gets one of them.",
        "Rows that differ from the labelled ones may be predicted less well than measured here.",
        *(f"{line[:1].upper()}{line[1:]}." for line in warning_lines(results)),
        *weak_classes(results),
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
        parts.append(f"## {heading}")
        parts.append("\n".join(f"- {line}" for line in lines))
    return "\n\n".join(parts).replace("\N{NO-BREAK SPACE}", " ") + "\n"
