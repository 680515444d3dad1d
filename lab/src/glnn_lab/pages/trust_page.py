"""The page of the trust measures: every goal, its measured value, met or missed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from glnn_lab.experiments.aggregate import Summary
from glnn_lab.experiments.trust import FIRST_SEED, TABLE_MEASURES

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Finding:
    """The measured value as text, and whether the goal is met."""

    words: str
    is_met: bool


@dataclass(frozen=True)
class TrustGoal:
    """One goal of a trust measure."""

    words: str
    judge: Callable[[Rows], Finding]
    kinds: tuple[str, ...] = ()  # of tables, which count together; empty: each case on its own
    measures: tuple[str, ...] = TABLE_MEASURES


def mean_over_draws(rows: Rows, name: str) -> float:
    """Return the mean of a number over draws."""
    return float(np.mean([row[name] for row in rows]))


def _gaps(rows: Rows, words: str = "") -> np.ndarray:
    """Return mean confidence minus accuracy of each table."""
    return np.array([row[f"{words}confidence"] - row[f"{words}accuracy"] for row in rows])


def _mean_gap(rows: Rows) -> Finding:
    gaps, raw = _gaps(rows), _gaps(rows, "raw ")
    words = (
        f"{gaps.mean():+.3f}, absolute {np.abs(gaps).mean():.3f} (raw {raw.mean():+.3f}, "
        f"{np.abs(raw).mean():.3f})"
    )
    return Finding(words, bool(abs(gaps.mean()) <= 0.04))


def _most_gaps(rows: Rows) -> Finding:
    share, raw = (float((np.abs(_gaps(rows, w)) <= 0.12).mean()) for w in ("", "raw "))
    return Finding(f"{share:.1%} of tables (raw {raw:.1%})", share >= 0.95)


def _every_gap(rows: Rows) -> Finding:
    gaps, raw = np.abs(_gaps(rows)), np.abs(_gaps(rows, "raw "))
    words = f"{gaps.mean():.3f} on average, {gaps.max():.3f} at most (raw {raw.max():.3f})"
    return Finding(words, bool((gaps <= 0.08).all()))


def _noise_gap(rows: Rows) -> Finding:
    gap, raw = _gaps(rows).mean(), _gaps(rows, "raw ").mean()
    return Finding(f"{gap:+.3f} (raw {raw:+.3f})", bool(gap <= 0.1))


def _error(rows: Rows) -> Finding:
    error, raw, least = (
        mean_over_draws(rows, name) for name in ("error", "raw error", "least error")
    )
    words = f"{error:.3f} (raw {raw:.3f}; perfect probabilities would have {least:.3f})"
    return Finding(words, error <= 0.05)


def _no_worse_than_raw(rows: Rows) -> Finding:
    change = mean_over_draws(rows, "error") - mean_over_draws(rows, "raw error")
    return Finding(f"{change:+.3f}", change <= 0.02)


def _coverage(rows: Rows) -> Finding:
    share = mean_over_draws(rows, "covered")
    width = np.mean([row["high"] - row["low"] for row in rows])
    words = f"{share:.1%} of {len(rows)} tables; intervals {100 * width:.0f} points wide"
    return Finding(words, 0.93 <= share <= 0.98)


def _sets(rows: Rows) -> Finding:
    share, size = mean_over_draws(rows, "set coverage"), mean_over_draws(rows, "set size")
    return Finding(f"{share:.3f}, {size:.2f} classes a set", 0.87 <= share <= 0.93)


def _right_labels(rows: Rows) -> Finding:
    right = [row for row in rows if row["wrong"] == 0]
    shares = np.array([row["suspects"] / row["labels"] for row in right] or [0.0])
    words = (
        f"{shares.mean():.1%} of the labels of {len(right)} tables; none in "
        f"{int((shares == 0).sum())} tables"
    )
    return Finding(words, bool(shares.mean() <= 0.02))


def _mistakes(rows: Rows) -> Finding:
    """Judge tables with planted mistakes; precision is over tables with some suspect."""
    some = [row for row in rows if row["suspects"]]
    precision = np.mean([row["wrong suspects"] / row["suspects"] for row in some]) if some else 0.0
    recall = np.mean([row["wrong suspects"] / row["wrong"] for row in rows])
    estimated = sum(row["estimated wrong"] for row in rows) / sum(row["wrong"] for row in rows)
    words = (
        f"precision {precision:.2f}, recall {recall:.2f}; {estimated:.0%} of their number estimated"
    )
    return Finding(words, bool(precision >= 0.6 and recall >= 0.5))


def _verdict(rows: Rows) -> Finding:
    n_said = sum(row["verdict"] == "chance" for row in rows)
    return Finding(f"{n_said} of {len(rows)} verdicts", n_said == len(rows))


def _uneven(rows: Rows) -> Finding:
    ours, plain, none = (mean_over_draws(rows, name) for name in ("balanced", "logistic", "none"))
    words = f"{ours:.3f} against {plain:.3f} (without weights {none:.3f})"
    return Finding(words, ours >= plain)


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
    words = (
        f"{found:.2f} at {rows[0]['nodes']} nodes that a label changes by 0.05; one fit and the "
        f"others {mean_over_draws(rows, 'one fit'):.2f}, half of the {rows[0]['seeds']} seeds and "
        f"the other {mean_over_draws(rows, 'half against half'):.2f}"
    )
    return Finding(words, found >= 0.8)


_NOISE = ("noise", "noise graph")
_PLANTED = ("mistakes", "digits", "cora")  # given labels are worse than those of other rows
_FAIR = ("features", "graph", "customers", "right digits", "right cora", *_NOISE)


GOALS = (
    TrustGoal("mean confidence within 0.04 of accuracy, mean over tables", _mean_gap, _FAIR),
    TrustGoal("confidence within 0.12 of accuracy in 95 % of tables", _most_gaps, _FAIR),
    TrustGoal("calibration error at most 0.05, mean over tables", _error, _FAIR),
    *(
        TrustGoal("calibration error at most 0.02 above raw", _no_worse_than_raw, (kind,))
        for kind in _FAIR
    ),
    TrustGoal("confidence within 0.08 of accuracy in each draw", _every_gap, ("customers",)),
    TrustGoal("confidence at most 0.1 above accuracy on noise", _noise_gap, _NOISE),
    TrustGoal("noise is called no better than chance", _verdict, _NOISE),
    TrustGoal("the interval contains the accuracy in 93 to 98 % of tables", _coverage, _FAIR),
    TrustGoal("`predict_set(0.1)` contains the class of 0.87 to 0.93 of rows", _sets, _FAIR),
    TrustGoal("right labels: at most 2 % are suspect", _right_labels, _FAIR),
    TrustGoal("10 % planted mistakes: precision 0.6, recall 0.5", _mistakes, _PLANTED),
    TrustGoal(
        "macro-F1, balanced, at least that of balanced logistic regression",
        _uneven,
        measures=("uneven",),
    ),
    TrustGoal("suggested labels beat random ones at equal numbers", _choice, measures=("choice",)),
    TrustGoal(
        "effects of labels by `explain` and by the same fit without each: rank correlation 0.8",
        _influence,
        measures=("influence",),
    ),
)


def goal_rows(rows: Rows) -> list[list[str]]:
    """Return a row of text for each goal; goals without kinds have a row for each case."""
    lines = []
    for goal in GOALS:
        own = [row for row in rows if row["what"] in goal.measures]
        if goal.kinds:
            own = [row for row in own if row["case"][0] in goal.kinds]
            named: list[tuple[str, Rows]] = [(_name_kinds(goal.kinds), own)]
            groups = named if own else []
        else:
            groups = _by_case(own)
        for case, drawn in groups:
            found = goal.judge(drawn)
            met = "met" if found.is_met else "**missed**"
            if min(row["seed"] for row in drawn) < FIRST_SEED:
                case += ", by an earlier version"
            lines.append([goal.words, case, str(len(drawn)), found.words, met])
    return lines


def _name_kinds(kinds: Sequence[str]) -> str:
    names = {_FAIR: "all without planted mistakes", _NOISE: "noise with and without a graph"}
    return names.get(tuple(kinds), ", ".join(kinds))


def _by_case(rows: Rows) -> list[tuple[str, Rows]]:
    order = sorted(rows, key=lambda row: str(row["case"]))
    groups = groupby(order, key=lambda row: ", ".join(map(str, row["case"])))
    return [(case, list(group)) for case, group in groups]


def trust_page(page: Mapping[str, Any]) -> str:
    """Return the page as Markdown from the results of ``lab/scripts/trust.py``."""
    from glnn_lab.pages.paper_tables import markdown_table  # needs rich, measuring does not

    header = ["goal", "tables", "draws", "measured", ""]
    rows: Rows = page["rows"]
    made = ", ".join(f"{name} {number}" for name, number in page["versions"].items())
    minutes = sum(row["seconds"] for row in rows) / 60
    has_earlier = any(row["seed"] < FIRST_SEED for row in rows)
    earlier = " (smaller ones by an earlier version)" if has_earlier else ""
    return (
        "# Can the answers be trusted?\n\n"
        f"Made by `python lab/scripts/trust.py`, seeds from {FIRST_SEED} on{earlier}, "
        f"{minutes:.0f} minutes of one core; {made}. Every draw is "
        "a row of [trust.json](trust.json). What the numbers mean: [trust](../trust.md), "
        "[explain](../explain.md).\n\n"
        f"{markdown_table(header, goal_rows(rows))}\n"
    )
