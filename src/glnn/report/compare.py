"""Compare runs: verdicts, paired differences in accuracy on common nodes, shared links."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.exceptions import InputError
from glnn.quality.metrics import Interval, ScoredPredictions, bootstrap_weights, paired_difference
from glnn.report.page.page_data import PageData, PageMeasure, extract_links, read_page_data


@dataclass(frozen=True)
class RunSummary:
    """One run of a comparison; field names are keys of the JSON output."""

    name: str
    verdict: str
    accuracy: PageMeasure | None
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


@dataclass(frozen=True)
class Comparison:
    """The compared runs, and all pairs of them."""

    runs: tuple[RunSummary, ...]
    pairs: tuple[RunPair, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, ready for JSON."""
        return {
            "runs": [
                vars(run) | {"accuracy": None if run.accuracy is None else vars(run.accuracy)}
                for run in self.runs
            ],
            "pairs": [
                vars(pair)
                | {"difference": None if pair.difference is None else vars(pair.difference)}
                for pair in self.pairs
            ],
        }


def compare_runs(folders: Sequence[Path]) -> Comparison:
    """Compare two or more run folders; nodes are matched by id."""
    if len(folders) < 2:
        raise InputError(f"a comparison needs two runs or more, got {len(folders)}.")
    names = run_names(folders)
    pages = [read_page_data(folder / "page.npz") for folder in folders]
    pairs = [
        _compare_pair(names[a], pages[a], names[b], pages[b])
        for a, b in combinations(range(len(pages)), 2)
    ]
    return Comparison(tuple(map(_summarize_run, names, pages)), tuple(pairs))


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return the names of the folders, or their paths if two names are equal.

    Examples
    --------
    >>> run_names([Path("runs/a"), Path("runs/b")]), run_names([Path("x/a"), Path("y/a")])
    (['a', 'b'], ['x/a', 'y/a'])
    """
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _summarize_run(name: str, page: PageData) -> RunSummary:
    evaluation = page.evaluation
    verdict = "not measured" if evaluation is None else evaluation.verdict
    own = None if evaluation is None or not evaluation.methods else evaluation.methods[0].accuracy
    judged = (page.nodes.judged >= 0) & (page.nodes.truth >= 0)
    return RunSummary(
        name, verdict, own, int(judged.sum()), int(extract_links(page.graphs.learned).nnz)
    )


def _compare_pair(first: str, page: PageData, second: str, other: PageData) -> RunPair:
    """Compare two runs on their common nodes; classes are matched by name."""
    here, there = _match_nodes(page.nodes.ids, other.nodes.ids)
    mine, theirs = _name_classes(page, here), _name_classes(other, there)
    both = (mine[0] != "") & (mine[0] == theirs[0]) & (mine[1] != "") & (theirs[1] != "")
    difference = None
    if both.any():
        right = [_as_binary(run[1][both] == run[0][both]) for run in (mine, theirs)]
        weights = bootstrap_weights(int(both.sum()), np.random.default_rng(0))
        difference = paired_difference(right[0], right[1], weights)
    links = [_link_keys(p.graphs.learned, k) for p, k in ((page, here), (other, there))]
    n_shared = len(np.intersect1d(links[0], links[1]))
    same = float((mine[2] == theirs[2]).mean()) if len(here) else None
    n_first, n_second = (len(keys) - n_shared for keys in links)
    return RunPair(first, second, int(both.sum()), difference, n_shared, n_first, n_second, same)


def _match_nodes(ids: Sequence[str], others: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the row numbers of common nodes in both runs, in the order of the first."""
    place = {name: k for k, name in enumerate(others)}
    pairs = [(k, place[name]) for k, name in enumerate(ids) if name in place]
    found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _name_classes(page: PageData, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return names of true, held-out and predicted classes; an empty text if there is none."""
    names = np.array([*page.class_names, ""], dtype=object)
    parts = (page.nodes.truth, page.nodes.judged, page.nodes.predicted)
    known, judged, predicted = (names[np.asarray(part)[nodes]] for part in parts)
    return known, judged, predicted


def _as_binary(right: np.ndarray) -> ScoredPredictions:
    """Return right and wrong predictions as those of a two-class problem; class 0 is right."""
    return ScoredPredictions(np.zeros(len(right), dtype=np.int64), np.eye(2)[np.where(right, 0, 1)])


def _link_keys(graph: sp.csr_matrix, nodes: np.ndarray) -> np.ndarray:
    """Return a number for each link among the nodes, by their positions in ``nodes``."""
    links = extract_links(sp.csr_matrix(graph[nodes][:, nodes]))
    return np.asarray(links.row.astype(np.int64) * len(nodes) + links.col)
