"""The state of a fit between its steps, as a value."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.engine.settings import GraphSettings, HeadSettings
from glnn.engine.trained import Trained, mean_answer
from glnn.solver import Certificate, LearnedGraph, NewRowProblem
from glnn.solver.inputs import GivenGraph
from glnn.solver.shares import LinkShares, link_shares


@dataclass(frozen=True, eq=False)
class Solution:
    """What later steps need of a solved graph problem, beside the graph.

    Parameters
    ----------
    certificate
        What is proven about the graph.
    candidates
        The pairs of the feature search, to be used again.
    learned
        The solution itself; ``None`` after a checkpoint, and over several processes.
    kept_shares
        Which term made which link, where a checkpoint has kept that alone.
    """

    certificate: Certificate
    candidates: tuple[np.ndarray, np.ndarray]
    learned: LearnedGraph | None = None
    kept_shares: LinkShares | None = None

    def shares(self) -> LinkShares | None:
        """Return which term made which link; ``None`` over several processes."""
        return self.kept_shares if self.learned is None else link_shares(self.learned)

    @classmethod
    def of(cls, learned: LearnedGraph) -> "Solution":
        """Keep what counts."""
        is_whole = learned.adjacency.shape[0] == learned.n_nodes
        return cls(learned.certificate, learned.candidates, learned if is_whole else None)


@dataclass(frozen=True, eq=False)
class FitState:
    """Where a fit stands. A step takes one and returns the next; to undo is to keep the old one.

    Parameters
    ----------
    graph, head
        Settings of the next graph step and of the next classifier step.
    given
        The given graph with its prior graph; ``None`` if there is none, or it is not trusted.
    doubt
        Error of the given graph's probe as a share of that of the features' probe; 0 if there was
        none.
    n_rounds
        How many rounds to take.
    round
        The round under way, or the last one taken; 0 before the first.
    adjacency
        The graph that the classifier sees.
    learned
        The last solution of the graph problem; ``None`` while there was none.
    new_rows
        The one-row problem of new nodes. Their predictions are not known yet, so without a given
        graph it is that of the first round, whose signals are features alone.
    trained
        The last classifier.
    partners
        Classifiers of the first round on rows, which do not change with the learned graph, that
        may answer together with the last one.
    row_graph
        The graph that heads on rows see: the given one as it is, or else that of the first round.
    temperature
        How much the next classifier's predictions are evened out where it answers with others, if
        that is known before it is trained.

    Graphs, signals and predictions are those of this process's rows.
    """

    graph: GraphSettings
    head: HeadSettings
    given: GivenGraph | None
    n_rounds: int
    round: int = 0
    adjacency: sp.csr_matrix | None = None
    learned: Solution | None = None
    new_rows: NewRowProblem | None = None
    trained: Trained | None = None
    partners: tuple[Trained, ...] = ()
    row_graph: sp.csr_matrix | None = None
    doubt: float = 0.0
    temperature: float = 1.0

    def changed(self, **changes: Any) -> "FitState":
        """Return the state with some of its parts replaced."""
        return dataclasses.replace(self, **changes)

    @property
    def answer(self) -> np.ndarray:
        """The class probabilities of this process's rows: the mean over all classifiers."""
        assert self.trained is not None  # there was a classifier step
        return mean_answer((self.trained, *self.partners))

    def next_round(self) -> "FitState":
        """Return the state at the beginning of the next round."""
        return self.changed(round=self.round + 1)

    def restarted(self, graph: GraphSettings, given: GivenGraph | None) -> "FitState":
        """Return the state with another graph problem, nothing of which is solved yet."""
        return self.changed(
            graph=graph, given=given, adjacency=None, learned=None, new_rows=None, trained=None
        )
