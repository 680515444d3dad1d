"""GCN on a nearest-neighbour graph: the control for data that come without a graph."""

from dataclasses import dataclass
from typing import ClassVar

import scipy.sparse as sp

from glnn.engine.classifier import ClassifierTask, Labels
from glnn.engine.seeding import generator_for
from glnn.engine.settings import HeadSettings
from glnn.nn.features import Features
from glnn.quality.plain.base import INIT, NOISE, Baseline, TrainSettings
from glnn.quality.plain.neighbors import cosine_graph
from glnn.quality.plain.problem import NodeProblem
from glnn.quality.plain.scaling import row_normalized


@dataclass(frozen=True, kw_only=True)
class KnnGCNSettings(TrainSettings):
    """GCN's settings, on 20 neighbours by cosine."""

    n_hidden: int = 16
    dropout: float = 0.5
    n_neighbors: int = 20


@dataclass(frozen=True)
class KnnGCN(Baseline):
    """GCN on the cosine graph of the features; a given graph is not looked at."""

    name: ClassVar[str] = "knn_gcn"
    title: ClassVar[str] = "kNN-GCN"
    paper: ClassVar[str] = "Franceschi et al., Learning discrete structures for GNNs, ICML 2019"
    needs_graph: ClassVar[bool] = False
    settings: KnnGCNSettings = KnnGCNSettings()

    def task(self, problem: NodeProblem, seed: int) -> ClassifierTask:
        """Make the two-layer network on the nearest-neighbour graph with loops."""
        s = self.settings
        graph = cosine_graph(problem.features, s.n_neighbors)
        return ClassifierTask(
            sp.csr_matrix(graph + sp.eye(problem.n_nodes)),
            Features.of(row_normalized(problem.features)),
            Labels(
                problem.train, problem.labels[problem.train], problem.n_nodes, problem.n_classes
            ),
            HeadSettings(n_hidden=s.n_hidden, dropout=s.dropout, weight_decay=s.weight_decay),
            init=generator_for(seed, INIT),
            noise=generator_for(seed, NOISE),
        )
