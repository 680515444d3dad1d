"""The page of the trust measures: every goal, its measured value, met or missed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from glnn_lab.experiments.aggregate import Summary
from glnn_lab.pages.paper_tables import markdown_table

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Finding:
    """The measured value as text, and whether the goal is met."""

    words: str
    is_met: bool


@dataclass(frozen=True)
class TrustGoal:
    """One goal of a trust measure."""

    what: str  # name of the measure
    words: str
    judge: Callable[[Rows], Finding]
    is_pooled: bool = False  # whether the draws of all cases count together


def mean_over_draws(rows: Rows, name: str) -> float:
    """Return the mean of a number over draws."""
    return float(np.mean([row[name] for row in rows]))


def _noise(rows: Rows) -> Finding:
    n_said = int(sum(row["says chance"] for row in rows))
    sure, right = mean_over_draws(rows, "confidence"), mean_over_draws(rows, "accuracy")
    words = (
        f"{n_said} of {len(rows)} verdicts; confidence {sure:.2f}, accuracy {right:.2f} "
        f"(raw confidence {mean_over_draws(rows, 'raw confidence'):.2f})"
    )
    return Finding(words, n_said == len(rows) and abs(sure - right) <= 0.1)


def _coverage(rows: Rows) -> Finding:
    n_covered = int(sum(row["covered"] for row in rows))
    width = 100 * mean_over_draws(rows, "half width")
    words = f"{n_covered} of {len(rows)} draws; intervals of ± {width:.0f} points on average"
    return Finding(words, n_covered >= 0.9 * len(rows))


def _calibration(rows: Rows) -> Finding:
    error, raw = mean_over_draws(rows, "error"), mean_over_draws(rows, "raw error")
    return Finding(f"{error:.3f} (raw {raw:.3f})", error <= 0.05)


def _uneven(rows: Rows) -> Finding:
    ours, plain, none = (mean_over_draws(rows, name) for name in ("balanced", "logistic", "none"))
    words = f"{ours:.3f} against {plain:.3f} (without weights {none:.3f})"
    return Finding(words, ours >= plain)


def _sets(rows: Rows) -> Finding:
    share, size = mean_over_draws(rows, "coverage"), mean_over_draws(rows, "size")
    return Finding(f"{share:.3f}, {size:.2f} classes a set", 0.87 <= share <= 0.93)


def _suspects(rows: Rows) -> Finding:
    precision, recall = mean_over_draws(rows, "precision"), mean_over_draws(rows, "recall")
    before, after = (
        mean_over_draws(rows, "accuracy"),
        mean_over_draws(rows, "accuracy without them"),
    )
    words = (
        f"precision {precision:.2f}, recall {recall:.2f}; accuracy {100 * before:.1f} %, "
        f"{100 * after:.1f} % without them"
    )
    return Finding(words, precision >= 0.5 and recall >= 0.5)


def _choice(rows: Rows) -> Finding:
    gain = Summary.of(100 * row["gain"] for row in rows)
    n_better = sum(row["gain"] > 0 for row in rows)
    words = (
        f"{gain.mean:+.1f} points [{gain.low:+.1f}, {gain.high:+.1f}], better in {n_better} of "
        f"{len(rows)}"
    )
    return Finding(words, gain.low > 0)


def _influence(rows: Rows) -> Finding:
    found = mean_over_draws(rows, "rank correlation")
    return Finding(f"{found:.2f}", found >= 0.8)


def _influence_estimate(rows: Rows) -> Finding:
    found = mean_over_draws(rows, "estimate")
    words = (
        f"{found:.2f} at {rows[0]['nodes']} nodes that a label moves by 0.05; one fit and the "
        f"others {mean_over_draws(rows, 'one fit'):.2f}, half of the {rows[0]['seeds']} seeds and "
        f"the other {mean_over_draws(rows, 'half against half'):.2f}"
    )
    return Finding(words, found >= 0.8)


_IN_SETS = "`predict_set(0.1)` holds the true class of 0.87 to 0.93 of hidden nodes"

GOALS = (
    TrustGoal("noise", "noise is called no better than chance, confidence within 0.1", _noise),
    TrustGoal("coverage", "the interval holds the true accuracy in 90 % of draws", _coverage, True),
    TrustGoal("calibration", "calibration error on hidden nodes at most 0.05", _calibration),
    TrustGoal(
        "uneven", "macro-F1, balanced, at least that of balanced logistic regression", _uneven
    ),
    TrustGoal("sets", _IN_SETS, _sets),
    TrustGoal("graph sets", _IN_SETS, _sets),
    TrustGoal(
        "influence",
        "small tables: effects of labels by `explain` and by the same fit without each, rank "
        "correlation at least 0.8",
        _influence,
    ),
    TrustGoal(
        "influence",
        "effects of labels as they are estimated elsewhere, and their mean over seeds, rank "
        "correlation at least 0.8",
        _influence_estimate,
    ),
    TrustGoal("choice", "suggested labels beat random ones at equal numbers", _choice),
    TrustGoal("suspects", "half of 10 % planted mistakes found, at precision 0.5", _suspects),
)


def goal_rows(rows: Rows) -> list[list[str]]:
    """Return a row of text for each goal and case."""
    lines = []
    for goal in GOALS:
        own = [row for row in rows if row["what"] == goal.what]
        for case, drawn in _by_case(own, goal.is_pooled):
            found = goal.judge(drawn)
            met = "met" if found.is_met else "**missed**"
            lines.append([goal.words, case, str(len(drawn)), found.words, met])
    return lines


def _by_case(rows: Rows, is_pooled: bool) -> list[tuple[str, Rows]]:
    if not rows:
        return []
    if is_pooled:
        return [(", ".join(dict.fromkeys(str(row["case"][0]) for row in rows)), rows)]
    order = sorted(rows, key=lambda row: str(row["case"]))
    groups = groupby(order, key=lambda row: ", ".join(map(str, row["case"])))
    return [(case, list(group)) for case, group in groups]


def trust_page(page: Mapping[str, Any]) -> str:
    """Return the page as Markdown from the results of ``lab/scripts/trust.py``."""
    header = ["goal", "table, labels, ...", "draws", "measured", ""]
    rows: Rows = page["rows"]
    seeds = sorted({row["seed"] for row in rows})
    made = ", ".join(f"{name} {number}" for name, number in page["versions"].items())
    return (
        "# Can the answers be trusted?\n\n"
        f"Made by `python lab/scripts/trust.py`, seeds from {seeds[0]} on, {page['jobs']} draws at "
        f"a time, {page['seconds'] / 60:.0f} minutes; {made}. Every draw is a row of "
        "[trust.json](trust.json). What the numbers mean: [trust](../trust.md), "
        "[explain](../explain.md).\n\n"
        f"{markdown_table(header, goal_rows(rows))}\n"
    )
