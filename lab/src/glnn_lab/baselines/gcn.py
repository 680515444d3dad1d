"""GCN of Kipf and Welling, SGC of Wu et al., and an MLP on the features alone."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.nn.features import Features, apply_dropout
from glnn.quality.rivals import GCN, GCNSettings, NodeProblem, TrainSettings
from glnn_lab.baselines.networks import (
    Edges,
    InputMap,
    Network,
    NetworkBaseline,
    current_dropout,
    fuse_messages,
    import_layers,
)


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

    name: ClassVar[str] = GCN.name
    title: ClassVar[str] = GCN.title
    paper: ClassVar[str] = GCN.paper
    decayed: ClassVar[str] = "first"
    settings: GCNSettings = GCN.settings

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
    settings: GCNSettings = GCN.settings

    def network(self, problem: NodeProblem, x: Features) -> MLPNetwork:
        """Build the perceptron."""
        return MLPNetwork(x.shape[1], problem.n_classes, self.settings)
