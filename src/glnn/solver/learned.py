"""The learned graph and what is known about it."""

from dataclasses import dataclass, field

import numpy as np
import scipy.sparse as sp

from glnn.objective import Weights
from glnn.solver.certificate import Certificate
from glnn.solver.problem import Problem


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

    @property
    def n_edges(self) -> int:
        """Number of edges, loops aside."""
        return (self.adjacency.nnz - int(np.count_nonzero(self.adjacency.diagonal()))) // 2
