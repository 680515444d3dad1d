"""From what the user gives to signals and a prior graph."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._validation import check_features
from glnn.exceptions import ProblemError
from glnn.graph import as_adjacency, prior_graph
from glnn.solver.implicit import Matrix
from glnn.solver.prior_rows import PriorRows
from glnn.solver.signals import FeatureSignal, joined, prediction_signal


@dataclass(frozen=True, eq=False)
class GivenGraph:
    """A given graph that was checked, and the prior graph made from it: one for many solves.

    Parameters
    ----------
    prior, prior_rows
        The prior graph, and how a new node's row of it is made.
    """

    prior: sp.csr_matrix
    prior_rows: PriorRows

    @classmethod
    def of(cls, graph: Any, n_nodes: int, kind: str) -> "GivenGraph":
        """Check a graph and make the prior graph of the named kind."""
        return cls.checked(as_adjacency(graph, n_nodes), kind)

    @classmethod
    def checked(cls, links: sp.csr_matrix, kind: str) -> "GivenGraph":
        """Make the prior graph of one that :func:`glnn.graph.as_adjacency` has returned."""
        prior = prior_graph(links, kind)
        return cls(prior, PriorRows(kind, np.asarray(links.sum(1)).ravel(), prior))


@dataclass(frozen=True, eq=False)
class GraphInputs:
    """Checked inputs of a graph problem.

    Parameters
    ----------
    transform
        How features become signals.
    base
        The signal rows of the features, by which candidates are found.
    signals
        ``base``, joined by predictions where there are any.
    prior, prior_rows
        The prior graph, and how a new node's row of it is made; ``None`` without a given graph.
    """

    transform: FeatureSignal
    base: Matrix
    signals: Matrix
    prior: sp.csr_matrix | None
    prior_rows: PriorRows | None

    @classmethod
    def read(
        cls,
        features: Any,
        graph: Any,
        *,
        signal: str = "l2",
        column_weights: Any = None,
        prior: str = "renormalized",
        predictions: tuple[Any, float | int] | None = None,
    ) -> "GraphInputs":
        """Check and prepare; ``predictions`` come with their weight, ``graph`` may be prepared.

        The names in the errors are those of :func:`learn_graph`.
        """
        features = check_features("X", features)
        n_nodes = features.shape[0]
        if n_nodes < 2:
            raise ProblemError("X must have at least two rows to learn a graph, got 1.")
        transform = FeatureSignal.fit(signal, features, column_weights)
        base = signals = transform.transform(features)
        if predictions is not None:
            signals = joined(base, prediction_signal(*predictions, n_nodes))
        if graph is None:
            return cls(transform, base, signals, None, None)
        given = graph if isinstance(graph, GivenGraph) else GivenGraph.of(graph, n_nodes, prior)
        return cls(transform, base, signals, given.prior, given.prior_rows)
