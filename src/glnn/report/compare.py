"""Compare runs: verdicts, paired differences in accuracy on common nodes, shared links."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
from rich.table import Table

from glnn.data.node_data import extract_links
from glnn.exceptions import InputError
from glnn.quality.metrics import Interval, ScoredPredictions, bootstrap_weights, paired_difference
from glnn.report.links import merge_links
from glnn.report.results import Results, read_results
from glnn.report.text import (
    DASH,
    format_lead,
    format_percent,
    format_share,
    number_table,
    verdict_line,
)


@dataclass(frozen=True)
class RunSummary:
    """One run of a comparison; field names are keys of the JSON output."""

    name: str
    verdict: str
    accuracy: Interval | None
    n_judged: int
    n_links: int


@dataclass(frozen=True)
class RunPair:
    """Two runs on the nodes of both; field names are keys of the JSON output."""

    first: str  # name of the first run
    second: str
    n_judged: int  # nodes with the same known label and a held-out prediction of both
    difference: Interval | None  # accuracy of the first minus that of the second on those nodes
    n_shared: int  # links among the common nodes that both have
    n_first: int  # links that only the first has
    n_second: int
    same_predictions: float | None  # share of common nodes with the same prediction


def compare_runs(folders: Sequence[Path]) -> tuple[list[RunSummary], list[RunPair]]:
    """Compare two or more run folders, and all pairs of them; nodes are matched by id.

    Runs have the names of their folders, or their paths if two names are equal.
    """
    if len(folders) < 2:
        raise InputError(f"a comparison needs two runs or more, got {len(folders)}.")
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    found = [read_results(folder) for folder in folders]
    pairs = [_compare_pair(*a, *b) for a, b in combinations(zip(names, found), 2)]
    return list(map(_summarize_run, names, found)), pairs


def _summarize_run(name: str, run: Results) -> RunSummary:
    own = None if run.evaluation is None else run.evaluation.own.metrics["accuracy"]
    judged = (run.judged >= 0) & (run.labels >= 0)
    n_links = int(extract_links(run.adjacency).nnz)
    return RunSummary(name, verdict_line(run), own, int(judged.sum()), n_links)


def _compare_pair(first: str, run: Results, second: str, other: Results) -> RunPair:
    """Compare two runs on their common nodes; classes are matched by name."""
    _, here, there = np.intersect1d(run.ids.astype(str), other.ids.astype(str), return_indices=True)
    mine, theirs = _name_classes(run, here), _name_classes(other, there)
    both = (mine[0] != "") & (mine[0] == theirs[0]) & (mine[1] != "") & (theirs[1] != "")
    difference = None
    if both.any():  # as predictions of two classes, of which class 0 is right
        truth = np.zeros(int(both.sum()), dtype=np.int64)
        scored = [
            ScoredPredictions(truth, np.eye(2)[np.where(part[1][both] == part[0][both], 0, 1)])
            for part in (mine, theirs)
        ]
        weights = bootstrap_weights(len(truth), np.random.default_rng(0))
        difference = paired_difference(scored[0], scored[1], weights)
    graphs = (p.adjacency[k][:, k] for p, k in ((run, here), (other, there)))
    n_shared, n_first, n_second = merge_links(*graphs).count_fates()
    same = float((mine[2] == theirs[2]).mean()) if len(here) else None
    return RunPair(first, second, int(both.sum()), difference, n_shared, n_first, n_second, same)


def _name_classes(run: Results, nodes: np.ndarray) -> list[np.ndarray]:
    """Return names of true, held-out and predicted classes; an empty text if there is none."""
    names = np.array([*run.class_names, ""], dtype=object)
    return [names[part[nodes]] for part in (run.labels, run.judged, run.predictions)]


def run_table(runs: Sequence[RunSummary]) -> Table:
    """Return a table with a line for each run."""
    table = number_table("run", "accuracy, unseen labels", "judged", "links", title="Runs")
    table.add_column("verdict")
    for run in runs:
        shown = DASH if run.accuracy is None else format_share(run.accuracy)
        table.add_row(run.name, shown, f"{run.n_judged:,}", f"{run.n_links:,}", run.verdict)
    return table


def pair_table(pairs: Sequence[RunPair]) -> Table:
    """Return a table with a line for each pair of runs, on the nodes of both."""
    links = "links shared / only first / only second"
    columns = ("difference in points", "judged by both", "same prediction", links)
    table = number_table("pair", *columns, title="Pairs, on common nodes")
    for pair in pairs:
        table.add_row(
            f"{pair.first} - {pair.second}",
            DASH if pair.difference is None else format_lead(pair.difference),
            f"{pair.n_judged:,}",
            format_percent(pair.same_predictions),
            f"{pair.n_shared:,} / {pair.n_first:,} / {pair.n_second:,}",
        )
    return table
