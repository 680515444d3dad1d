"""What a fit and its comparisons gave: one frozen record that every report reads."""

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
from glnn.quality import Evaluation
from glnn.quality.calibration import Calibration
from glnn.quality.estimate import MethodScore, Verdict, verdict_of
from glnn.quality.metrics import Judged, bootstrap_weights
from glnn.report.page.page_data import LinkTerms, Round, Search
from glnn.solver import Certificate

# --- tested: What labels that were kept for the test say of a fit, and of plain methods beside it


@dataclass(frozen=True, eq=False)
class Score:
    """One method on the test nodes, on the same labels as the others.

    Parameters
    ----------
    method
        Its name for people.
    accuracy
        On the test nodes; ``None`` without any.
    seconds
        What its fit took.
    note
        Why there is no number.
    probabilities
        Of the test nodes, one column for each class of the data, if they were kept.
    name
        Its name in code.
    """

    method: str
    accuracy: float | None
    seconds: float
    note: str = ""
    probabilities: np.ndarray | None = None
    name: str = ""

    def to_dict(self) -> dict[str, str | float | None]:
        """Return what is written of it."""
        return {name: vars(self)[name] for name in ("method", "accuracy", "seconds", "note")}


@dataclass(frozen=True, eq=False)
class OnTestNodes:
    """A fit and plain methods, judged node by node on labels that none of them has seen.

    Parameters
    ----------
    own, others
        The fit, and the methods that it was compared with, with a column for each class of the
        data.
    """

    own: MethodScore
    others: tuple[MethodScore, ...]

    @classmethod
    def of(
        cls,
        labels: np.ndarray,
        probabilities: np.ndarray,
        classes: np.ndarray,
        n_classes: int,
        others: Sequence[Score] = (),
    ) -> "OnTestNodes":
        """Judge the test nodes.

        Parameters
        ----------
        labels
            Their class numbers.
        probabilities, classes
            What the fit says of them, and the class number of each of its columns. A class that
            had no label to learn from has no column; its nodes count as mistakes.
        n_classes
            Of the data.
        others
            Compared methods, of which those with probabilities are judged.
        """
        said = np.zeros((len(labels), n_classes))
        said[:, classes] = probabilities
        own = Judged(labels, said)
        weights = bootstrap_weights(len(own), np.random.default_rng(0))
        beside = [
            MethodScore.of(
                other.name,
                other.method,
                Judged(labels, other.probabilities),
                weights,
                other.seconds,
                own,
            )
            for other in others
            if other.probabilities is not None
        ]
        return cls(MethodScore.of("glnn", "GLNN", own, weights, 0.0), tuple(beside))

    @property
    def verdict(self) -> Verdict:
        """Whether the answer is any good, and whether a plain method does as well."""
        return verdict_of(self.own, self.others)


# --- facts: What can be said of a learned graph in a few numbers


@dataclass(frozen=True)
class GraphFacts:
    """Counts and shares of an undirected graph; loops are counted apart from edges.

    Parameters
    ----------
    n_nodes, n_edges, n_loops
        Sizes.
    mean_degree
        Mean number of neighbours.
    n_isolated, n_components
        Nodes without an edge, and connected parts.
    equal_labels, n_labelled_edges
        Share of edges that join equal labels, of those whose labels the fit has not seen, and how
        many these are; ``None`` if there are none. The graph is learned from the labels that it
        has seen: of those the share would be high for noise, too.
    equal_by_chance
        The share to be expected if the same ends were joined at random: the sum of the squared
        shares that the classes have of the ends of these edges.
    n_given, n_kept, n_added
        Edges of the given graph, how many of them the learned one has, and how many edges are
        new; ``None`` without a given graph.
    """

    n_nodes: int
    n_edges: int
    n_loops: int
    mean_degree: float
    n_isolated: int
    n_components: int
    equal_labels: float | None
    n_labelled_edges: int
    n_given: int | None = None
    n_kept: int | None = None
    n_added: int | None = None
    equal_by_chance: float | None = None

    @classmethod
    def of(
        cls,
        adjacency: sp.csr_matrix,
        hidden: np.ndarray,
        given: sp.csr_matrix | None = None,
    ) -> "GraphFacts":
        """Count on a symmetric graph; ``hidden`` has classes that the fit has not seen, else -1.

        Examples
        --------
        >>> path = sp.csr_matrix(np.array([[0, 1, 0], [1, 0, 2], [0, 2, 0.0]]))
        >>> facts = GraphFacts.of(path, np.array([0, 0, -1]))
        >>> facts.n_edges, facts.equal_labels, facts.n_labelled_edges
        (2, 1.0, 1)
        """
        n_nodes = adjacency.shape[0]
        i, j = edges_of(adjacency)
        degree = np.bincount(np.concatenate([i, j]), minlength=n_nodes)
        known = (hidden[i] >= 0) & (hidden[j] >= 0)
        return cls(
            n_nodes=n_nodes,
            n_edges=len(i),
            n_loops=int(np.count_nonzero(adjacency.diagonal())),
            mean_degree=float(degree.mean()),
            n_isolated=int((degree == 0).sum()),
            n_components=int(connected_components(adjacency, directed=False)[0]),
            equal_labels=_share(hidden[i[known]] == hidden[j[known]]),
            n_labelled_edges=int(known.sum()),
            equal_by_chance=_by_chance(np.concatenate([hidden[i[known]], hidden[j[known]]])),
            **_against(adjacency, given),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, ready for JSON."""
        return asdict(self)


def edges_of(adjacency: sp.csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    """Return the two ends of every edge, each edge once and loops left out."""
    upper = sp.triu(adjacency, k=1, format="coo")
    stored = upper.data != 0
    return upper.row[stored].astype(np.int64), upper.col[stored].astype(np.int64)


def _share(equal: np.ndarray) -> float | None:
    return float(equal.mean()) if equal.size else None


def _by_chance(ends: np.ndarray) -> float | None:
    """Return how often two of these classes, drawn at random, are equal."""
    return float(np.square(np.bincount(ends) / ends.size).sum()) if ends.size else None


def _against(adjacency: sp.csr_matrix, given: sp.csr_matrix | None) -> dict[str, int | None]:
    if given is None:
        return {"n_given": None, "n_kept": None, "n_added": None}
    n_nodes = adjacency.shape[0]
    learned, old = (i * n_nodes + j for i, j in (edges_of(adjacency), edges_of(given)))
    n_kept = int(np.isin(old, learned).sum())
    return {"n_given": len(old), "n_kept": n_kept, "n_added": len(learned) - n_kept}


# --- results: What a fit and its comparisons gave: one frozen record that every report reads


@dataclass(frozen=True, eq=False)
class FitResults:
    """A finished fit.

    Parameters
    ----------
    data, split
        The data, and which labels were used.
    classes
        Class numbers of ``data`` in the order of the columns of ``probabilities``.
    probabilities
        Class probabilities of every node.
    adjacency
        The learned graph.
    certificate
        What is proven about it, if anything.
    facts
        The graph in numbers.
    scores
        GLNN first, then the methods it was compared with.
    history
        Every epoch's numbers.
    settings
        All settings of the fit, as plain values.
    seed, device
        Where randomness came from, and where it was computed.
    seconds
        How long each part took.
    notes
        What a user should know about the data.
    estimate
        What folds over the labelled nodes found, if they were run.
    suspects
        Numbers of the nodes whose given label is doubted.
    command
        The command that made the run, if it was one.
    rounds
        The graph after each round.
    terms, metric
        What made each link, and the columns that count most in the learned similarity.
    digest
        A text that changes with the data.
    trust
        The share of each given link's weight that was kept, if that is known.
    search
        How parameters were chosen, where they were searched for.
    calibration
        The map that made ``probabilities`` of the network's own; ``None``: they are its own.
    """

    data: NodeData
    split: Split
    classes: np.ndarray
    probabilities: np.ndarray
    adjacency: sp.csr_matrix
    certificate: Certificate | None
    facts: GraphFacts
    scores: tuple[Score, ...]
    history: History
    settings: Mapping[str, Any]
    seed: int = 0
    device: str = "cpu"
    seconds: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    estimate: Evaluation | None = None
    suspects: tuple[int, ...] = ()
    command: str = ""
    rounds: tuple[Round, ...] = ()
    terms: LinkTerms | None = None
    metric: tuple[tuple[str, float], ...] = ()
    digest: str = ""
    trust: sp.csr_matrix | None = None
    search: Search | None = None
    calibration: Calibration | None = None

    @property
    def predictions(self) -> np.ndarray:
        """The predicted class number of every node."""
        return np.asarray(self.classes[self.probabilities.argmax(1)])

    @cached_property
    def tested(self) -> OnTestNodes | None:
        """What the test nodes say; nothing without any."""
        test = self.split.test
        if not test.size:
            return None
        labels, said = self.data.labels[test], self.probabilities[test]
        return OnTestNodes.of(labels, said, self.classes, self.data.n_classes, self.scores[1:])

    @property
    def calibrated_by(self) -> str | None:
        """Whose hidden labels calibrated the probabilities; nothing where they are raw."""
        if self.calibration is None or self.calibration.is_identity:
            return None
        if self.estimate is not None:
            return "folds"
        return "validation" if self.split.val.size else "hidden_third"

    @property
    def class_names(self) -> list[str]:
        """Names of the classes, in the order of the columns of ``probabilities``."""
        return [self.data.class_names[number] for number in self.classes]

    def accuracy(self, part: str) -> float | None:
        """Return the accuracy on ``train``, ``val`` or ``test``; nothing if it is empty."""
        return accuracy(self.predictions, self.data.labels, getattr(self.split, part))


def accuracy(predictions: np.ndarray, labels: np.ndarray, nodes: np.ndarray) -> float | None:
    """Return the share of nodes that are predicted right, or nothing without nodes.

    Examples
    --------
    >>> accuracy(np.array([0, 1, 1]), np.array([0, 1, 0]), np.array([1, 2]))
    0.5
    """
    return float((predictions[nodes] == labels[nodes]).mean()) if nodes.size else None


# --- predictions: The predictions of a run as a table: labelled nodes by fits that had not seen th


def write_node_predictions(path: Path, results: FitResults) -> None:
    """Write one line a node, with the label that it was given and whether that was hidden."""
    names, data = results.class_names, results.data
    probabilities, held_out = shown_probabilities(results)
    given = np.full(data.n_nodes, "", dtype=object)
    seen = np.concatenate([results.split.train, results.split.val])
    given[seen] = np.array(data.class_names, dtype=object)[data.labels[seen]]
    told = np.where(held_out, "yes", "no")
    write_predictions(
        path,
        data.ids,
        [names[k] for k in probabilities.argmax(1)],
        probabilities,
        names,
        given=given.tolist(),
        held_out=np.where(given == "", "", told).tolist(),
        spreadsheet_safe=True,
    )


def shown_probabilities(results: FitResults) -> tuple[np.ndarray, np.ndarray]:
    """Return probabilities of every node, and which come from fits without the node's label."""
    probabilities = np.array(results.probabilities, dtype=np.float64)
    held_out = np.zeros(len(probabilities), dtype=bool)
    if results.estimate is not None:
        nodes = results.estimate.held_out.judged
        probabilities[nodes] = results.estimate.probabilities[nodes]
        held_out[nodes] = True
    return probabilities, held_out
