"""A fitted estimator as explanations see it: nodes, labels, links and what made them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.graph.dense_rows import dense_rows
from glnn.quality.embedding import Spread, embedding
from glnn.solver.shares import LinkShares


@dataclass(frozen=True, eq=False)
class FittedNodes:
    """The training nodes of a fit.

    Parameters
    ----------
    adjacency
        The learned graph, CSR.
    features
        Scaled features, as the network takes them.
    spread
        Spreads signals over the graph as the network does.
    labels
        Number of the class of every node whose label was given, -1 elsewhere.
    trained
        Sorted numbers of the nodes whose labels trained the network.
    probabilities
        Class probabilities, calibrated where the fit did so.
    classes
        The labels by class number.
    column_names
        Names of the columns by which nodes are compared.
    shares
        Which term made which link; ``None`` if that is not known.
    compared
        The columns by which nodes were compared, where those are not the features.
    """

    adjacency: sp.csr_matrix
    features: Any
    spread: Spread
    labels: np.ndarray
    trained: np.ndarray
    probabilities: np.ndarray
    classes: np.ndarray
    column_names: Sequence[str]
    shares: LinkShares | None = None
    compared: np.ndarray | None = None

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.labels)

    @property
    def signals(self) -> Any:
        """The columns by which nodes were compared."""
        return self.features if self.compared is None else self.compared

    def rows(self) -> np.ndarray:
        """Return the nodes as the network sees them: features spread over the graph."""
        return embedding(self.features, self.spread)

    def class_of(self, number: int) -> Any:
        """Return the label with this class number, as a plain value."""
        return self.classes.tolist()[number]

    def label_of(self, node: int) -> Any:
        """Return the given label of a node, ``None`` without one."""
        number = self.labels[node]
        return None if number < 0 else self.class_of(int(number))

    def column_shares(self, node: int, ends: np.ndarray) -> np.ndarray:
        """Return what each feature column gives to the links of a node, links x columns."""
        if self.shares is None:
            return np.zeros((len(ends), len(self.column_names)))
        return self.shares.column_shares(self._dense(node)[0], self._dense(ends))

    def _dense(self, nodes: Any) -> np.ndarray:
        chosen = self.signals[np.atleast_1d(nodes)]
        return np.asarray(dense_rows(chosen), dtype=np.float64)
