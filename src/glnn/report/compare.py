"""Runs side by side: verdicts, paired differences on the nodes both have judged, shared links."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.exceptions import InputError
from glnn.quality.metrics import Interval, Judged, bootstrap_weights, paired_difference
from glnn.report.page.page_data import Measure, PageData, read_page, upper_links


@dataclass(frozen=True)
class RunLine:
    """One run: its name, verdict, accuracy on unseen labels, number of links."""

    name: str
    verdict: str
    accuracy: Measure | None
    n_judged: int
    n_links: int


@dataclass(frozen=True)
class PairLine:
    """Two runs on the nodes of both.

    Parameters
    ----------
    first, second
        Their names.
    n_judged
        Nodes with the same known label that both have judged.
    difference
        Accuracy of the first minus that of the second on them; ``None`` without such nodes.
    n_shared, n_first, n_second
        Links among the common nodes that both have, and that one alone has.
    same_predictions
        Share of the common nodes that both predict alike; ``None`` without common nodes.
    """

    first: str
    second: str
    n_judged: int
    difference: Interval | None
    n_shared: int
    n_first: int
    n_second: int
    same_predictions: float | None


@dataclass(frozen=True)
class Comparison:
    """Runs, and all pairs of them."""

    runs: tuple[RunLine, ...]
    pairs: tuple[PairLine, ...]

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
    """Read two or more run folders and compare them, node by node of the same id.

    Parameters
    ----------
    folders
        Folders that ``glnn fit`` has written.
    """
    if len(folders) < 2:
        raise InputError(f"a comparison needs two runs or more, got {len(folders)}.")
    names = run_names(folders)
    pages = [read_page(folder / "page.npz") for folder in folders]
    pairs = [
        _pair(names[a], pages[a], names[b], pages[b]) for a, b in combinations(range(len(pages)), 2)
    ]
    return Comparison(tuple(map(_line, names, pages)), tuple(pairs))


def run_names(folders: Sequence[Path]) -> list[str]:
    """Return the folders' own names, or their whole paths where two are alike.

    Examples
    --------
    >>> run_names([Path("runs/a"), Path("runs/b")]), run_names([Path("x/a"), Path("y/a")])
    (['a', 'b'], ['x/a', 'y/a'])
    """
    short = [folder.resolve().name for folder in folders]
    return short if len(set(short)) == len(short) else [str(folder) for folder in folders]


def _line(name: str, page: PageData) -> RunLine:
    evaluation = page.evaluation
    verdict = "not measured" if evaluation is None else evaluation.verdict
    own = None if evaluation is None or not evaluation.methods else evaluation.methods[0].accuracy
    judged = (page.nodes.judged >= 0) & (page.nodes.truth >= 0)
    return RunLine(name, verdict, own, int(judged.sum()), int(upper_links(page.graphs.learned).nnz))


def _pair(first: str, page: PageData, second: str, other: PageData) -> PairLine:
    """Compare two runs on their common nodes; classes are matched by name."""
    here, there = _common(page.nodes.ids, other.nodes.ids)
    mine, theirs = _named(page, here), _named(other, there)
    both = (mine[0] != "") & (mine[0] == theirs[0]) & (mine[1] != "") & (theirs[1] != "")
    difference = None
    if both.any():
        right = [_as_judged(run[1][both] == run[0][both]) for run in (mine, theirs)]
        weights = bootstrap_weights(int(both.sum()), np.random.default_rng(0))
        difference = paired_difference(right[0], right[1], weights)
    links = [_keys(p.graphs.learned, k) for p, k in ((page, here), (other, there))]
    n_shared = len(np.intersect1d(links[0], links[1]))
    same = float((mine[2] == theirs[2]).mean()) if len(here) else None
    n_first, n_second = (len(keys) - n_shared for keys in links)
    return PairLine(first, second, int(both.sum()), difference, n_shared, n_first, n_second, same)


def _common(ids: Sequence[str], others: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers of the nodes that both have, in the order of the first."""
    place = {name: k for k, name in enumerate(others)}
    pairs = [(k, place[name]) for k, name in enumerate(ids) if name in place]
    found = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _named(page: PageData, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return known, judged and predicted classes by name, an empty one where there is none."""
    names = np.array([*page.class_names, ""], dtype=object)
    parts = (page.nodes.truth, page.nodes.judged, page.nodes.predicted)
    known, judged, predicted = (names[np.asarray(part)[nodes]] for part in parts)
    return known, judged, predicted


def _as_judged(right: np.ndarray) -> Judged:
    """Return right and wrong as predictions of one of two classes, the first being right."""
    return Judged(np.zeros(len(right), dtype=np.int64), np.eye(2)[np.where(right, 0, 1)])


def _keys(graph: sp.csr_matrix, nodes: np.ndarray) -> np.ndarray:
    """Return one number for each link among the nodes, by their places in the list."""
    links = upper_links(sp.csr_matrix(graph[nodes][:, nodes]))
    return np.asarray(links.row.astype(np.int64) * len(nodes) + links.col)
