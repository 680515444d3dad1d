"""From what the user gives to signals and a prior graph."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._validation import check_features
from glnn.exceptions import InputError, ProblemError
from glnn.graph import as_adjacency, prior_graph
from glnn.graph.convert import as_adjacency_rows
from glnn.graph.prior import PriorKind
from glnn.peers import ALONE, Partition, Peers
from glnn.solver.prior_rows import PriorRows
from glnn.solver.signals import FeatureSignal, Matrix, SignalKind, joined, prediction_signal


@dataclass(frozen=True, eq=False)
class GivenGraph:
    """A given graph that was checked, and the prior graph made from it: one for many solves.

    Parameters
    ----------
    prior, prior_rows
        The prior graph, and how a new node's row of it is made; over several processes, this
        one's rows of it.
    """

    prior: sp.csr_matrix
    prior_rows: PriorRows

    @classmethod
    def of(cls, graph: Any, partition: Partition, kind: PriorKind) -> "GivenGraph":
        """Check a graph, or this process's rows of one, and make the prior graph of a kind."""
        if partition.peers.size == 1:
            return cls.checked(as_adjacency(graph, partition.n_nodes), kind)
        return cls.checked(as_adjacency_rows(graph, partition), kind, partition.peers)

    @classmethod
    def checked(cls, links: sp.csr_matrix, kind: PriorKind, peers: Peers = ALONE) -> "GivenGraph":
        """Make the prior graph of one that :func:`glnn.graph.as_adjacency` has returned.

        Over several processes each gives its rows.
        """
        prior = prior_graph(links, kind, peers)
        partition = Partition(links.shape[1], peers)
        degrees = partition.everyone(np.asarray(links.sum(1), dtype=np.float64).ravel())
        return cls(prior, PriorRows(kind, degrees, prior))


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
    partition
        Which rows are in this process.
    prior, prior_rows
        The prior graph, and how a new node's row of it is made; ``None`` without a given graph.
    """

    transform: FeatureSignal
    base: Matrix
    signals: Matrix
    partition: Partition
    prior: sp.csr_matrix | None
    prior_rows: PriorRows | None

    @classmethod
    def read(
        cls,
        features: Any,
        graph: Any,
        *,
        signal: SignalKind = "l2",
        column_weights: Any = None,
        prior: PriorKind = "renormalized",
        predictions: tuple[Any, float | int] | None = None,
        peers: Peers = ALONE,
    ) -> "GraphInputs":
        """Check and prepare; ``predictions`` come with their weight, ``graph`` may be prepared.

        The names in the errors are those of :func:`learn_graph`.
        """
        features = check_features("X", features)
        partition = partition_of(features.shape[0], peers)
        if partition.n_nodes < 2:
            raise ProblemError("X must have at least two rows to learn a graph, got 1.")
        transform = FeatureSignal.fit(signal, features, column_weights, peers)
        base = signals = transform.transform(features)
        if predictions is not None:
            signals = joined(base, prediction_signal(*predictions, partition.n_rows))
        if graph is None:
            return cls(transform, base, signals, partition, None, None)
        given = graph if isinstance(graph, GivenGraph) else GivenGraph.of(graph, partition, prior)
        return cls(transform, base, signals, partition, given.prior, given.prior_rows)


def partition_of(n_rows: int, peers: Peers) -> Partition:
    """Return who has which rows, of which this process has this many."""
    partition = Partition(int(peers.all_reduce(float(n_rows))), peers)
    if int(peers.all_reduce(float(n_rows != partition.n_rows))):
        raise InputError(
            f"process {peers.rank} must have rows {partition.start} to {partition.stop} of "
            f"{partition.n_nodes}, got {n_rows} rows. Cut them as glnn.peers.Partition does."
        )
    return partition
