"""GCN of Kipf and Welling, also on nearest neighbours; SGC of Wu et al.; an MLP on the features."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
import torch
from jaxtyping import Float
from sklearn import config_context
from sklearn.neighbors import NearestNeighbors
from torch import Tensor, nn

from glnn.engine.settings import HeadSettings
from glnn.engine.tasks import ClassifierTask
from glnn.nn.features import Features, apply_dropout
from glnn.quality.rivals import NodeProblem, gcn_task
from glnn_lab.baselines.base import Baseline, TrainSettings
from glnn_lab.baselines.networks import (
    Edges,
    InputMap,
    Network,
    NetworkBaseline,
    current_dropout,
    fuse_messages,
    import_layers,
)


@dataclass(frozen=True, kw_only=True)
class GCNSettings(TrainSettings):
    """Published for the citation networks: 200 epochs, decay on the first layer alone."""

    n_hidden: int = 16
    dropout: float = 0.5


class GCNNetwork(Network):
    r"""Two layers, :math:`Z = \hat A\,\mathrm{ReLU}(\hat A X W_0 + b_0)\,W_1 + b_1`.

    :math:`\hat A = \tilde D^{-1/2} (A + I) \tilde D^{-1/2}`, made and kept by ``GCNConv``.
    """

    def __init__(self, edges: Edges, n_in: int, n_out: int, settings: GCNSettings) -> None:
        super().__init__()
        conv = import_layers().GCNConv
        self.edges, self.dropout = edges, settings.dropout
        self.first_map = InputMap(n_in, settings.n_hidden)
        self.first = fuse_messages(conv(settings.n_hidden, settings.n_hidden, cached=True))
        self.first.lin = nn.Identity()
        self.second = fuse_messages(conv(settings.n_hidden, n_out, cached=True))

    def forward(self, x: Features, noise: torch.Generator) -> Float[Tensor, "n c"]:
        """Return class logits."""
        drop, graph = current_dropout(self, self.dropout), (self.edges.index, self.edges.weight)
        hidden = torch.relu(self.first(self.first_map(x.apply_dropout(drop, noise)), *graph))
        logits: Tensor = self.second(apply_dropout(hidden, drop, noise), *graph)
        return logits


@dataclass(frozen=True)
class GCNBaseline(NetworkBaseline):
    """GCN with the layers of PyTorch Geometric, on the given graph."""

    name: ClassVar[str] = "gcn"
    title: ClassVar[str] = "GCN"
    paper: ClassVar[str] = (
        "Kipf and Welling, Semi-supervised classification with graph convolutional networks, "
        "ICLR 2017"
    )
    decayed: ClassVar[str] = "first"
    settings: GCNSettings = GCNSettings()

    def network(self, problem: NodeProblem, x: Features) -> GCNNetwork:
        """Build the network on the given graph."""
        edges = Edges.of(problem.graph)
        return GCNNetwork(edges, x.shape[1], problem.n_classes, self.settings)


# SGC: a GCN without its activation


@dataclass(frozen=True, kw_only=True)
class SGCSettings(TrainSettings):
    """Published: two steps and a large learning rate; the decay is that found for Cora."""

    n_epochs: int = 100
    learning_rate: float = 0.2
    weight_decay: float = 1.3e-5
    n_steps: int = 2


class SGCNetwork(Network):
    r"""One linear map of smoothed features, :math:`Z = \hat A^K X W + b`."""

    def __init__(self, edges: Edges, n_in: int, n_out: int, settings: SGCSettings) -> None:
        super().__init__()
        self.edges = edges
        self.first_map = InputMap(n_in, n_out)
        self.bias = nn.Parameter(torch.zeros(n_out))
        self.smooth = fuse_messages(import_layers().SGConv(n_out, n_out, K=settings.n_steps))
        self.smooth.lin = nn.Identity()

    def forward(self, x: Features, noise: torch.Generator) -> Float[Tensor, "n c"]:
        """Return class logits."""
        logits: Tensor = self.smooth(self.first_map(x), self.edges.index, self.edges.weight)
        return logits + self.bias


@dataclass(frozen=True)
class SGC(NetworkBaseline):
    """SGC as published, with one decay for all data."""

    name: ClassVar[str] = "sgc"
    title: ClassVar[str] = "SGC"
    paper: ClassVar[str] = "Wu et al., Simplifying graph convolutional networks, ICML 2019"
    settings: SGCSettings = SGCSettings()

    def network(self, problem: NodeProblem, x: Features) -> SGCNetwork:
        """Build the network on the given graph."""
        edges = Edges.of(problem.graph)
        return SGCNetwork(edges, x.shape[1], problem.n_classes, self.settings)


# MLP: the control without a graph


class MLPNetwork(Network):
    r"""Two layers, :math:`Z = \mathrm{ReLU}(X W_0 + b_0)\,W_1 + b_1`."""

    def __init__(self, n_in: int, n_out: int, settings: GCNSettings) -> None:
        super().__init__()
        self.dropout = settings.dropout
        self.first_map = InputMap(n_in, settings.n_hidden)
        self.bias = nn.Parameter(torch.zeros(settings.n_hidden))
        self.second = nn.Linear(settings.n_hidden, n_out)
        nn.init.xavier_uniform_(self.second.weight)

    def forward(self, x: Features, noise: torch.Generator) -> Float[Tensor, "n c"]:
        """Return class logits."""
        drop = current_dropout(self, self.dropout)
        hidden = torch.relu(self.first_map(x.apply_dropout(drop, noise)) + self.bias)
        logits: Tensor = self.second(apply_dropout(hidden, drop, noise))
        return logits


@dataclass(frozen=True)
class MLP(NetworkBaseline):
    """A two-layer perceptron; a given graph is not looked at."""

    name: ClassVar[str] = "mlp"
    title: ClassVar[str] = "MLP"
    paper: ClassVar[str] = "Kipf and Welling, ICLR 2017, as their control"
    needs_graph: ClassVar[bool] = False
    decayed: ClassVar[str] = "first"
    settings: GCNSettings = GCNSettings()

    def network(self, problem: NodeProblem, x: Features) -> MLPNetwork:
        """Build the perceptron."""
        return MLPNetwork(x.shape[1], problem.n_classes, self.settings)


# GCN on nearest neighbours


@dataclass(frozen=True, kw_only=True)
class KnnGCNSettings(GCNSettings):
    """GCN's settings, on 20 neighbours by cosine."""

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
        """Build glnn's own GCN on the graph of nearest neighbours."""
        s = self.settings
        graph = cosine_graph(problem.features, s.n_neighbors)
        settings = HeadSettings(n_hidden=s.n_hidden, dropout=s.dropout, weight_decay=s.weight_decay)
        return gcn_task(problem, graph, seed, settings)


def cosine_graph(features: Any, n_neighbors: int) -> sp.csr_matrix:
    """Link each node with the ``n_neighbors`` nodes of highest cosine; symmetric, weights 1.

    The search is exact and works through blocks of rows, so no n x n matrix is stored. A node
    without features has no direction, so it gets no links; neither do nodes at right angles.

    Examples
    --------
    >>> x = np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 1.0], [0.0, 0.0]])
    >>> cosine_graph(x, 1).toarray()
    array([[0., 1., 0., 0.],
           [1., 0., 1., 0.],
           [0., 1., 0., 0.],
           [0., 0., 0., 0.]])
    """
    n_nodes = features.shape[0]
    wanted = min(n_neighbors, n_nodes - 1)
    if wanted == 0:
        return sp.csr_matrix((n_nodes, n_nodes))
    search = NearestNeighbors(n_neighbors=wanted, metric="cosine", algorithm="brute")
    with config_context(working_memory=128):  # MB of distances at a time
        distances, neighbors = search.fit(features).kneighbors()
    rows = np.repeat(np.arange(n_nodes), wanted)
    columns, near = neighbors.ravel(), distances.ravel() < 1 - 1e-12
    ones = np.ones(int(near.sum()))
    graph = sp.csr_matrix((ones, (rows[near], columns[near])), shape=(n_nodes, n_nodes))
    return sp.csr_matrix(graph.maximum(graph.T))
