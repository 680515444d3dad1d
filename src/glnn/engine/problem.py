"""What a fit is given."""

from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp

from glnn.engine.classifier import Labels
from glnn.engine.trainer import Validation


@dataclass(frozen=True)
class FitProblem:
    """What a fit is given: features of all nodes, a few labels, perhaps a graph.

    Parameters
    ----------
    features
        Dense array or CSR matrix, one row a node.
    labels
        Class numbers of the training nodes.
    graph
        Checked symmetric adjacency matrix, or ``None``.
    validation
        Labelled nodes that choose epoch, head and signal, or ``None``.
    """

    features: Any
    labels: Labels
    graph: sp.csr_matrix | None = None
    validation: Validation | None = None
