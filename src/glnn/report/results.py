"""What a fit and its comparisons gave: one frozen record that every report reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.data import NodeData, Split
from glnn.engine.history import History
from glnn.quality import Evaluation
from glnn.quality.calibration import Calibration
from glnn.report.facts import GraphFacts
from glnn.report.page.data import LinkTerms, Round, Search
from glnn.report.tested import OnTestNodes, Score
from glnn.solver import Certificate


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
