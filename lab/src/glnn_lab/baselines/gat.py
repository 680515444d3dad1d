"""Graph attention network of Veličković et al."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from glnn.nn.features import Features, apply_dropout
from glnn.quality.rivals import NodeProblem
from glnn_lab.baselines.base import TrainSettings
from glnn_lab.baselines.networks import (
    Edges,
    InputMap,
    Network,
    NetworkBaseline,
    current_dropout,
    import_layers,
)


@dataclass(frozen=True, kw_only=True)
class GATSettings(TrainSettings):
    """Published for Cora and Citeseer: 8 heads of 8 units, then one head."""

    n_epochs: int = 1000
    learning_rate: float = 0.005
    patience: int | None = 100
    n_hidden: int = 8
    n_heads: int = 8
    dropout: float = 0.6


class GATNetwork(Network):
    r"""Two layers of :math:`z_i = \Vert_h \sum_{j \in N_i \cup i} \alpha^h_{ij} W^h x_j`.

    .. math:: \alpha^h_{ij} = \mathrm{softmax}_j\bigl(\mathrm{LeakyReLU}(
              a^h_1 \cdot W^h x_i + a^h_2 \cdot W^h x_j)\bigr)

    Dropout on inputs and on attention. Edge weights take no part, as published.
    """

    def __init__(self, edges: Edges, n_in: int, n_out: int, settings: GATSettings) -> None:
        super().__init__()
        conv = import_layers().GATConv
        width = settings.n_hidden * settings.n_heads
        self.edges, self.dropout = edges, settings.dropout
        self.first_map = InputMap(n_in, width)
        self.first = conv(
            width, settings.n_hidden, heads=settings.n_heads, dropout=settings.dropout
        )
        self.first.lin = nn.Identity()
        self.second = conv(width, n_out, heads=1, dropout=settings.dropout)

    def forward(self, x: Features, noise: torch.Generator) -> Float[Tensor, "n c"]:
        """Return class logits."""
        drop = current_dropout(self, self.dropout)
        mapped = self.first_map(x.apply_dropout(drop, noise))
        hidden = functional.elu(self.first(mapped, self.edges.index))
        logits: Tensor = self.second(apply_dropout(hidden, drop, noise), self.edges.index)
        return logits


@dataclass(frozen=True)
class GAT(NetworkBaseline):
    """GAT with the settings published for Cora and Citeseer."""

    name: ClassVar[str] = "gat"
    title: ClassVar[str] = "GAT"
    paper: ClassVar[str] = "Veličković et al., Graph attention networks, ICLR 2018"
    settings: GATSettings = GATSettings()

    def network(self, problem: NodeProblem, x: Features) -> GATNetwork:
        """Build the network on the given graph."""
        edges = Edges.of(problem.graph)
        return GATNetwork(edges, x.shape[1], problem.n_classes, self.settings)
