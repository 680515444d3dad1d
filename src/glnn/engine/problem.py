"""What a fit is given."""

from dataclasses import dataclass, field
from typing import Any

import scipy.sparse as sp

from glnn.engine.classifier import Labels
from glnn.engine.trainer import Validation
from glnn.peers import ALONE, Partition, Peers


@dataclass(frozen=True)
class FitProblem:
    """What a fit is given: features of all nodes, a few labels, perhaps a graph.

    Parameters
    ----------
    features
        Dense array or CSR matrix, one row a node; of several processes each has its rows.
    labels
        Class numbers of all training nodes.
    graph
        Checked symmetric adjacency matrix, the same rows of it, or ``None``.
    validation
        All labelled nodes that choose epoch, head and signal, or ``None``.
    peers
        The processes that have the other rows.
    """

    features: Any
    labels: Labels
    graph: sp.csr_matrix | None = None
    validation: Validation | None = None
    peers: Peers = field(default=ALONE)

    @property
    def partition(self) -> Partition:
        """Which rows are here."""
        return Partition(self.labels.n_nodes, self.peers)
