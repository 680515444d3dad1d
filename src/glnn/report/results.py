"""The results of a run: scores on test nodes, statistics of the graph, predictions as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from glnn.data import NodeData, Split, write_predictions
from glnn.engine.callbacks import History
from glnn.engine.settings import FitSettings
from glnn.quality import Evaluation
from glnn.quality.calibration import Calibration
from glnn.quality.metrics import Score as MethodScore
from glnn.quality.metrics import ScoredPredictions, bootstrap_weights
from glnn.quality.verdict import Verdict, make_verdict
from glnn.report.page.page_data import LinkTerms, Round, Search
from glnn.solver import Certificate

# Scores on test nodes


@dataclass(frozen=True, eq=False)
class Score:
    """The score of one method on the test nodes."""

    method: str  # the name to show
    accuracy: float | None  # None without test nodes
    seconds: float  # time of the fit
    note: str = ""  # why there is no number, or what was left out of the data
    probabilities: np.ndarray | None = None  # test nodes x classes of the data
    name: str = ""  # the name in code

    def to_dict(self) -> dict[str, str | float | None]:
        """Return plain values, ready for JSON."""
        return {name: vars(self)[name] for name in ("method", "accuracy", "seconds", "note")}


@dataclass(frozen=True, eq=False)
class HoldoutScores:
    """Scores of a fit and of its rivals on the test nodes."""

    own: MethodScore  # the fit
    others: tuple[MethodScore, ...]  # the rivals

    @classmethod
    def of(
        cls,
        labels: np.ndarray,
        probabilities: np.ndarray,
        classes: np.ndarray,
        n_classes: int,
        others: Sequence[Score] = (),
        seconds: float = 0.0,
    ) -> "HoldoutScores":
        """Score the test nodes, which have the class numbers ``labels``.

        ``classes`` has the class number of each column of ``probabilities``. A class without a
        training label has no column; its nodes count as mistakes. Methods in ``others`` without
        probabilities are skipped. ``seconds`` is the time of the fit.
        """
        full = np.zeros((len(labels), n_classes))
        full[:, classes] = probabilities
        own = ScoredPredictions(labels, full)
        weights = bootstrap_weights(len(own), np.random.default_rng(0))
        compared = [
            MethodScore.of(
                other.name,
                other.method,
                ScoredPredictions(labels, other.probabilities),
                weights,
                other.seconds,
                own,
            )
            for other in others
            if other.probabilities is not None
        ]
        return cls(MethodScore.of("glnn", "GLNN", own, weights, seconds), tuple(compared))

    @property
    def verdict(self) -> Verdict:
        """Whether the fit is better than chance, and than the rivals."""
        return make_verdict(self.own, self.others)


# Statistics of a graph


@dataclass(frozen=True)
class GraphFacts:
    """Statistics of an undirected graph.

    Equal labels are counted on edges between test nodes only: the graph is learned from the other
    labels, so that among those the share would be high for noise, too.
    """

    n_nodes: int
    n_edges: int  # without loops
    n_loops: int
    mean_degree: float
    n_isolated: int  # nodes without an edge
    n_components: int
    equal_labels: float | None  # share of edges between test nodes that join equal labels
    n_labelled_edges: int  # edges between test nodes
    n_given: int | None = None  # edges of the given graph; None without one
    n_kept: int | None = None  # given edges that the learned graph has
    n_added: int | None = None  # learned edges that were not given
    equal_by_chance: float | None = None  # expected equal_labels if the ends were paired at random

    @classmethod
    def of(
        cls,
        adjacency: sp.csr_matrix,
        hidden: np.ndarray,
        given: sp.csr_matrix | None = None,
    ) -> "GraphFacts":
        """Compute the statistics; ``hidden`` has the classes of test nodes, and -1 elsewhere.

        Examples
        --------
        >>> path = sp.csr_matrix(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0.0]]))
        >>> facts = GraphFacts.of(path, np.array([0, 0, -1]))
        >>> facts.n_edges, facts.equal_labels, facts.n_labelled_edges
        (2, 1.0, 1)
        """
        n_nodes = adjacency.shape[0]
        i, j = edge_endpoints(adjacency)
        degree = np.bincount(np.concatenate([i, j]), minlength=n_nodes)
        known = (hidden[i] >= 0) & (hidden[j] >= 0)
        return cls(
            n_nodes=n_nodes,
            n_edges=len(i),
            n_loops=int(np.count_nonzero(adjacency.diagonal())),
            mean_degree=float(degree.mean()),
            n_isolated=int((degree == 0).sum()),
            n_components=int(connected_components(adjacency, directed=False)[0]),
            equal_labels=_mean_or_none(hidden[i[known]] == hidden[j[known]]),
            n_labelled_edges=int(known.sum()),
            equal_by_chance=_expected_equal_share(
                np.concatenate([hidden[i[known]], hidden[j[known]]])
            ),
            **_compare_with_given(adjacency, given),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, ready for JSON."""
        return asdict(self)


def edge_endpoints(adjacency: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return the two ends of every edge, each edge once and loops left out."""
    upper = sp.triu(adjacency, k=1, format="coo")
    stored = upper.data != 0
    return upper.row[stored].astype(np.int64), upper.col[stored].astype(np.int64)


def _mean_or_none(equal: np.ndarray) -> float | None:
    return float(equal.mean()) if equal.size else None


def _expected_equal_share(ends: np.ndarray) -> float | None:
    """Return the probability that two ends drawn at random are of the same class."""
    return float(np.square(np.bincount(ends) / ends.size).sum()) if ends.size else None


def _compare_with_given(
    adjacency: sp.csr_matrix, given: sp.csr_matrix | None
) -> dict[str, int | None]:
    if given is None:
        return {"n_given": None, "n_kept": None, "n_added": None}
    n_nodes = adjacency.shape[0]
    learned, old = (i * n_nodes + j for i, j in (edge_endpoints(adjacency), edge_endpoints(given)))
    n_kept = int(np.isin(old, learned).sum())
    return {"n_given": len(old), "n_kept": n_kept, "n_added": len(learned) - n_kept}


# Results of a run


def describe_settings(settings: FitSettings, data: NodeData) -> dict[str, Any]:
    """Return the settings of a fit to such data as plain values, track by track.

    ``tracks`` are their names, and ``track`` the settings of each.
    """
    own = settings.tracks_for(data.graph is not None)
    page = asdict(settings)
    del page["no_graph"]
    track = {t.name: {k: v for k, v in asdict(t).items() if k != "name"} for t in own}
    return page | {"tracks": list(track), "track": track}


@dataclass(frozen=True, eq=False)
class FitResults:
    """The results of a fit."""

    data: NodeData
    split: Split
    classes: np.ndarray  # class number in data of each column of probabilities
    probabilities: np.ndarray  # all nodes x classes
    adjacency: sp.csr_matrix  # the learned graph
    certificate: Certificate | None  # None if the graph was not solved for
    facts: GraphFacts
    scores: tuple[Score, ...]  # GLNN first, then the rivals
    history: History
    settings: Mapping[str, Any]  # all settings, as plain values
    seed: int = 0
    device: str = "cpu"
    seconds: Mapping[str, float] = field(default_factory=dict)  # time of each part
    notes: tuple[str, ...] = ()  # what was left out or encoded in the data
    estimate: Evaluation | None = None  # by cross-validation, if it was run
    suspects: tuple[int, ...] = ()  # nodes whose given label disagrees with the model
    command: str = ""  # the command line of the run, if it had one
    rounds: tuple[Round, ...] = ()  # the graph after each round
    terms: LinkTerms | None = None  # contribution of each term to each link
    metric: tuple[tuple[str, float], ...] = ()  # columns with most weight in the learned metric
    digest: str = ""  # hash of the data
    trust: sp.csr_matrix | None = None  # share of each given link's weight that was kept
    search: Search | None = None  # how parameters were chosen, if they were searched for
    calibration: Calibration | None = None  # None: probabilities are not calibrated
    groups: np.ndarray | None = None  # group of each node, if rows of a group are hidden together
    times: np.ndarray | None = None  # time of each node, if earlier labels predict later ones

    @property
    def predictions(self) -> np.ndarray:
        """The predicted class number of every node."""
        return np.asarray(self.classes[self.probabilities.argmax(1)])

    @cached_property
    def holdout(self) -> HoldoutScores | None:
        """Scores on the test nodes; ``None`` without any."""
        test = self.split.test
        if not test.size:
            return None
        labels, probabilities = self.data.labels[test], self.probabilities[test]
        own, *others = self.scores
        return HoldoutScores.of(
            labels, probabilities, self.classes, self.data.n_classes, others, own.seconds
        )

    @property
    def verdict(self) -> Verdict | None:
        """The verdict of the estimate, else of the test labels; ``None`` without either."""
        if self.estimate is not None:
            return self.estimate.verdict
        return None if self.holdout is None else self.holdout.verdict

    @property
    def calibration_method(self) -> str | None:
        """Which held-out labels calibrated the probabilities; ``None`` without calibration."""
        if self.calibration is None or self.calibration.is_identity:
            return None
        is_validated = self.split.val.size and self.estimate is None
        return "validation" if is_validated else "folds"

    @property
    def class_names(self) -> list[str]:
        """Names of the classes, in the order of the columns of ``probabilities``."""
        return [self.data.class_names[number] for number in self.classes]

    def accuracy(self, part: str) -> float | None:
        """Return the accuracy on ``train``, ``val`` or ``test``; ``None`` if it is empty."""
        return accuracy(self.predictions, self.data.labels, getattr(self.split, part))


def accuracy(predictions: np.ndarray, labels: np.ndarray, nodes: np.ndarray) -> float | None:
    """Return the share of nodes that are predicted right, or ``None`` without nodes.

    Examples
    --------
    >>> accuracy(np.array([0, 1, 1]), np.array([0, 1, 0]), np.array([1, 2]))
    0.5
    """
    return float((predictions[nodes] == labels[nodes]).mean()) if nodes.size else None


# Predictions as a table


def write_node_predictions(path: Path, results: FitResults) -> None:
    """Write one line a node, with its given label and whether the prediction was held out."""
    names, data = results.class_names, results.data
    probabilities, held_out = merge_held_out(results)
    given = np.full(data.n_nodes, "", dtype=object)
    seen = np.concatenate([results.split.train, results.split.val])
    given[seen] = np.array(data.class_names, dtype=object)[data.labels[seen]]
    is_held_out = np.where(held_out, "yes", "no")
    write_predictions(
        path,
        data.ids,
        [names[k] for k in probabilities.argmax(1)],
        probabilities,
        names,
        given=given.tolist(),
        held_out=np.where(given == "", "", is_held_out).tolist(),
        spreadsheet_safe=True,
    )


def merge_held_out(results: FitResults) -> tuple[np.ndarray, np.ndarray]:
    """Return the probabilities, held-out ones for labelled nodes, and which nodes have those."""
    probabilities = np.array(results.probabilities, dtype=np.float64)
    held_out = np.zeros(len(probabilities), dtype=bool)
    if results.estimate is not None:
        nodes = results.estimate.held_out.hidden_nodes
        probabilities[nodes] = results.estimate.probabilities[nodes]
        held_out[nodes] = True
    return probabilities, held_out
