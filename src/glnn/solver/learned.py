"""The learned graph and what is known about it."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from glnn._display import Shown
from glnn.exceptions import InputError
from glnn.objective import Reading, Weights
from glnn.solver.certificate import Certificate
from glnn.solver.new_rows import NewLinks, NewRowProblem
from glnn.solver.problem import Problem


@dataclass(frozen=True, eq=False, repr=False)
class LearnedGraph(Shown):
    """The answer of :func:`learn_graph`; over several processes, this one's rows of it.

    Parameters
    ----------
    adjacency
        Symmetric, non-negative CSR matrix in float64, sorted, without stored zeros; rows of this
        process.
    prior
        The prior graph it was asked to stay close to, or ``None``.
    certificate
        What is proven about it.
    weights
        The weights of the terms, the sparsity weight as it was resolved.
    reading
        The reading of the graph Laplacian regulariser.
    row_sums
        Row sums of the whole graph.
    mean_added_degree
        Mean number of neighbours by edges that the prior graph lacks, loops aside.
    dual
        The dual point, a warm start for the next solve.
    candidates
        The pairs (i, j) of the feature search, to be used again; those of this process.
    problem
        The problem that was solved, for :func:`certify`.
    new_rows
        The one-row problem of new nodes.
    """

    adjacency: sp.csr_matrix
    prior: sp.csr_matrix | None
    certificate: Certificate
    weights: Weights
    reading: Reading
    row_sums: np.ndarray
    mean_added_degree: float
    dual: dict[str, np.ndarray]
    candidates: tuple[np.ndarray, np.ndarray]
    problem: Problem
    new_rows: NewRowProblem

    def _facts(self) -> dict[str, str]:
        n_edges = sp.triu(self.adjacency, k=1).nnz
        proof = "optimal" if self.certificate.converged else "NOT optimal"
        return {
            "reading": f"{self.reading} reading",
            "nodes": f"{self.adjacency.shape[0]:,}",
            "edges": f"{n_edges:,}",
            "graph problem": f"{proof} (relative gap {self.certificate.relative_gap:.0e})",
        }

    @property
    def n_edges(self) -> int:
        """Number of edges, loops aside; half an edge of another process counts half."""
        first = self.problem.partition.start if self.adjacency.shape[0] < self.n_nodes else 0
        n_loops = int(np.count_nonzero(self.adjacency.diagonal(first)))
        return (int(self.adjacency.nnz) - n_loops) // 2

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.adjacency.shape[1])

    def connect(self, new_X: Any, links: Any = None) -> NewLinks:  # noqa: N803
        """Return the best edges of new nodes to this graph, which stays as it is.

        Parameters
        ----------
        new_X
            Features of the new nodes, with the columns of the training features.
        links
            Known edges to the training nodes (new x N, sparse or dense), if there was a graph.

        Returns
        -------
        NewLinks
            ``links``, a CSR matrix (new x N), and ``loops``. Each row depends on its own node
            only. What predictions added to the signals is unknown for new nodes and left out.
        """
        if self.adjacency.shape[0] < self.n_nodes:
            raise InputError("new nodes must be connected to a whole graph: use collected() first.")
        return self.new_rows.connect(new_X, links)

    def collected(self) -> "LearnedGraph | None":
        """Return the whole graph in process 0, ``None`` elsewhere; all processes must call it.

        The problem stays that of the processes: certify there.
        """
        partition = self.problem.partition
        adjacency = partition.collected(self.adjacency)
        prior = None if self.prior is None else partition.collected(self.prior)
        signal = partition.collected(self.new_rows.signal)
        if partition.peers.rank:
            return None
        rows = self.new_rows.prior
        whole = None if rows is None else dataclasses.replace(rows, prior=prior)
        new_rows = dataclasses.replace(self.new_rows, signal=signal, prior=whole)
        return dataclasses.replace(self, adjacency=adjacency, prior=prior, new_rows=new_rows)
