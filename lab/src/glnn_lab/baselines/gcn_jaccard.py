"""GCN on the given edges whose ends share features: a defence against poisoned graphs."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from glnn.nn.features import Features
from glnn.quality.plain.problem import NodeProblem
from glnn_lab.baselines.gcn import GCN, GCNNetwork, GCNSettings


@dataclass(frozen=True, kw_only=True)
class GCNJaccardSettings(GCNSettings):
    """As published: edges with a similarity below 0.01 go, which are those that share nothing."""

    threshold: float = 0.01


@dataclass(frozen=True)
class GCNJaccard(GCN):
    """GCN without the edges whose ends have too few features in common."""

    name: ClassVar[str] = "gcn_jaccard"
    title: ClassVar[str] = "GCN-Jaccard"
    paper: ClassVar[str] = (
        "Wu et al., Adversarial examples for graph data: deep insights into attack and defense, "
        "IJCAI 2019"
    )
    settings: GCNJaccardSettings = GCNJaccardSettings()

    def network(self, problem: NodeProblem, x: Features) -> GCNNetwork:
        """Make the network on the edges that are kept."""
        graph = alike(problem.graph, problem.features, self.settings.threshold)
        return super().network(dataclasses.replace(problem, graph=graph), x)


def alike(graph: sp.csr_matrix, features: Any, threshold: float) -> sp.csr_matrix:
    r"""Return the edges with :math:`|x_i \cap x_j| / |x_i \cup x_j|` of at least the threshold.

    Examples
    --------
    >>> triangle = sp.csr_matrix(np.ones((3, 3)) - np.eye(3))
    >>> words = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    >>> alike(triangle, words, 0.4).nnz, alike(triangle, words, 0.3).nnz
    (2, 4)
    """
    has = sp.csr_matrix(sp.csr_matrix(features) != 0, dtype=np.float64)
    coo = sp.coo_matrix(graph)
    both = np.asarray(has[coo.row].multiply(has[coo.col]).sum(1)).ravel()
    size = np.asarray(has.sum(1)).ravel()
    either = size[coo.row] + size[coo.col] - both
    kept = np.divide(both, either, out=np.zeros_like(both), where=either > 0) >= threshold
    return sp.csr_matrix((coo.data[kept], (coo.row[kept], coo.col[kept])), shape=graph.shape)
