"""Defences against poisoned graphs: GCN-Jaccard and GCN on a low-rank graph."""

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from scipy.sparse.linalg import eigsh
from torch import Tensor, nn

from glnn.nn.features import Features, apply_dropout
from glnn.quality.rivals import NodeProblem
from glnn_lab.baselines.gcn import GCNBaseline, GCNNetwork, GCNSettings
from glnn_lab.baselines.networks import InputMap, Network, NetworkBaseline, current_dropout


@dataclass(frozen=True, kw_only=True)
class GCNJaccardSettings(GCNSettings):
    """As published: edges with a similarity below 0.01 are removed."""

    threshold: float = 0.01


@dataclass(frozen=True)
class GCNJaccard(GCNBaseline):
    """GCN without the edges whose ends have too few features in common."""

    name: ClassVar[str] = "gcn_jaccard"
    title: ClassVar[str] = "GCN-Jaccard"
    paper: ClassVar[str] = (
        "Wu et al., Adversarial examples for graph data: deep insights into attack and defense, "
        "IJCAI 2019"
    )
    settings: GCNJaccardSettings = GCNJaccardSettings()

    def network(self, problem: NodeProblem, x: Features) -> GCNNetwork:
        """Build the network on the remaining edges."""
        graph = drop_dissimilar_edges(problem.graph, problem.features, self.settings.threshold)
        return super().network(dataclasses.replace(problem, graph=graph), x)


def drop_dissimilar_edges(graph: sp.csr_matrix, features: Any, threshold: float) -> sp.csr_matrix:
    r"""Return the edges with :math:`|x_i \cap x_j| / |x_i \cup x_j|` of at least the threshold.

    Examples
    --------
    >>> triangle = sp.csr_matrix(np.ones((3, 3)) - np.eye(3))
    >>> words = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 1]])
    >>> drop_dissimilar_edges(triangle, words, 0.4).nnz
    2
    >>> drop_dissimilar_edges(triangle, words, 0.3).nnz
    4
    """
    has = sp.csr_matrix(sp.csr_matrix(features) != 0, dtype=np.float64)
    coo = sp.coo_matrix(graph)
    both = np.asarray(has[coo.row].multiply(has[coo.col]).sum(1)).ravel()
    size = np.asarray(has.sum(1)).ravel()
    either = size[coo.row] + size[coo.col] - both
    kept = np.divide(both, either, out=np.zeros_like(both), where=either > 0) >= threshold
    return sp.csr_matrix((coo.data[kept], (coo.row[kept], coo.col[kept])), shape=graph.shape)


# GCN-SVD


@dataclass(frozen=True, kw_only=True)
class GCNSVDSettings(GCNSettings):
    """Rank 50, as in common use; the rest as published for GCN."""

    rank: int = 50


class LowRankGraph:
    r"""The product with :math:`\tilde D^{-1/2} (A_k + I) \tilde D^{-1/2}`.

    Of :math:`A` the ``k`` largest singular values are left in :math:`A_k`, and :math:`\tilde D` has
    the row sums of :math:`A_k + I`; a row whose sum is not positive counts as zero.
    """

    def __init__(self, graph: sp.csr_matrix, rank: int) -> None:
        n_nodes = graph.shape[0]
        matrix = sp.csr_matrix(graph, dtype=np.float64)
        rank = min(rank, n_nodes - 1)
        values, vectors = np.zeros(0), np.zeros((n_nodes, 0))
        if matrix.nnz:
            values, vectors = eigsh(matrix, k=rank, which="LM", v0=np.ones(n_nodes))
        degree = (vectors * values) @ vectors.sum(0) + 1.0
        root = np.where(degree > 0, np.maximum(degree, 1e-12) ** -0.5, 0.0)[:, None]
        parts = (root * vectors * values, root * vectors, np.square(root))
        self._left, self._right, self._own = (torch.from_numpy(p).float() for p in parts)

    def __matmul__(self, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        return self._left @ (self._right.T @ x) + self._own * x


class GCNSVDNetwork(Network):
    r"""Two layers, :math:`Z = \hat A\,\mathrm{ReLU}(\hat A X W_0 + b_0)\,W_1 + b_1`."""

    def __init__(
        self, graph: LowRankGraph, n_in: int, n_out: int, settings: GCNSVDSettings
    ) -> None:
        super().__init__()
        self.graph, self.dropout = graph, settings.dropout
        self.first_map = InputMap(n_in, settings.n_hidden)
        self.first_bias = nn.Parameter(torch.zeros(settings.n_hidden))
        self.second = nn.Parameter(nn.init.xavier_uniform_(torch.empty(settings.n_hidden, n_out)))
        self.second_bias = nn.Parameter(torch.zeros(n_out))

    def forward(self, x: Features, noise: torch.Generator) -> Float[Tensor, "n c"]:
        """Return class logits."""
        drop = current_dropout(self, self.dropout)
        hidden = torch.relu(
            self.graph @ self.first_map(x.apply_dropout(drop, noise)) + self.first_bias
        )
        return self.graph @ (apply_dropout(hidden, drop, noise) @ self.second) + self.second_bias


@dataclass(frozen=True)
class GCNSVD(NetworkBaseline):
    """GCN on the graph's leading part."""

    name: ClassVar[str] = "gcn_svd"
    title: ClassVar[str] = "low-rank GCN"
    paper: ClassVar[str] = (
        "Entezari et al., All you need is low (rank): defending against adversarial attacks on "
        "graphs, WSDM 2020"
    )
    decayed: ClassVar[str] = "first"
    settings: GCNSVDSettings = GCNSVDSettings()

    def network(self, problem: NodeProblem, x: Features) -> GCNSVDNetwork:
        """Build the network on the low-rank graph."""
        graph = LowRankGraph(problem.graph, self.settings.rank)
        return GCNSVDNetwork(graph, x.shape[1], problem.n_classes, self.settings)
