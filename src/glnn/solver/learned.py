"""The learned graph and what is known about it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn.objective import Weights
from glnn.solver.certificate import Certificate
from glnn.solver.new_nodes import NewRows, RowProblem
from glnn.solver.problem import Problem


@dataclass(frozen=True, eq=False)
class Answer:
    """What a solver leaves, on the host or on a device.

    ``problem`` and ``weights`` have the sparsity weight that was found; other fields as in
    :class:`LearnedGraph`.
    """

    problem: Problem
    weights: Weights
    adjacency: sp.csr_matrix
    certificate: Certificate
    mean_added_degree: float
    dual: dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class LearnedGraph:
    """The answer of :func:`learn_graph`.

    Parameters
    ----------
    adjacency
        Symmetric, non-negative CSR matrix in float64, sorted, without stored zeros.
    prior
        The prior graph it was asked to stay close to, or ``None``.
    certificate
        What is proven about it.
    weights
        The weights of the terms, the sparsity weight as it was resolved.
    reading
        The reading of the graph Laplacian regulariser.
    row_sums
        Row sums of ``adjacency``.
    mean_added_degree
        Mean number of neighbours by edges that the prior graph lacks, loops aside.
    dual
        The dual point, a warm start for the next solve.
    candidates
        The pairs (i, j) of the feature search, to be used again.
    problem
        The problem that was solved, for :func:`certify`.
    rows
        The one-row problem of new nodes.
    """

    adjacency: sp.csr_matrix
    prior: sp.csr_matrix | None
    certificate: Certificate
    weights: Weights
    reading: str
    row_sums: np.ndarray
    mean_added_degree: float
    dual: dict[str, np.ndarray] = field(repr=False)
    candidates: tuple[np.ndarray, np.ndarray] = field(repr=False)
    problem: Problem = field(repr=False)
    rows: RowProblem = field(repr=False)

    @property
    def n_edges(self) -> int:
        """Number of edges, loops aside."""
        n_loops = int(np.count_nonzero(self.adjacency.diagonal()))
        return (int(self.adjacency.nnz) - n_loops) // 2

    def connect(self, new_X: Any, links: Any = None) -> NewRows:  # noqa: N803
        """Return the best edges of new nodes to this graph, which stays as it is.

        Parameters
        ----------
        new_X
            Features of the new nodes, with the columns of the training features.
        links
            Known edges to the training nodes (new x N, sparse or dense), if there was a graph.

        Returns
        -------
        NewRows
            ``links``, a CSR matrix (new x N), and ``loops``. Each row depends on its own node
            only. What predictions added to the signals is unknown for new nodes and left out.
        """
        return self.rows.connect(new_X, links)
