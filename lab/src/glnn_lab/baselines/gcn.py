"""Graph convolutional network of Kipf and Welling."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.nn.dropout import dropped
from glnn.nn.features import Features
from glnn.quality.plain.base import TrainSettings
from glnn.quality.plain.problem import NodeProblem
from glnn_lab.baselines.inputs import Edges, InputMap
from glnn_lab.baselines.pyg import fused, layers
from glnn_lab.baselines.supervised import Network, NetworkBaseline, rate


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
        conv = layers().GCNConv
        self.edges, self.dropout = edges, settings.dropout
        self.first_map = InputMap(n_in, settings.n_hidden)
        self.first = fused(conv(settings.n_hidden, settings.n_hidden, cached=True))
        self.first.lin = nn.Identity()
        self.second = fused(conv(settings.n_hidden, n_out, cached=True))

    def forward(self, x: Features, noise: torch.Generator) -> Float[Tensor, "n c"]:
        """Return class logits."""
        drop, graph = rate(self, self.dropout), (self.edges.index, self.edges.weight)
        hidden = torch.relu(self.first(self.first_map(x.dropped(drop, noise)), *graph))
        logits: Tensor = self.second(dropped(hidden, drop, noise), *graph)
        return logits


@dataclass(frozen=True)
class GCN(NetworkBaseline):
    """GCN as published, on the given graph."""

    name: ClassVar[str] = "gcn"
    title: ClassVar[str] = "GCN"
    paper: ClassVar[str] = (
        "Kipf and Welling, Semi-supervised classification with graph convolutional networks, "
        "ICLR 2017"
    )
    decayed: ClassVar[str] = "first"
    settings: GCNSettings = GCNSettings()

    def network(self, problem: NodeProblem, x: Features) -> GCNNetwork:
        """Make the network on the given graph."""
        edges = Edges.of(problem.graph)
        return GCNNetwork(edges, x.shape[1], problem.n_classes, self.settings)
