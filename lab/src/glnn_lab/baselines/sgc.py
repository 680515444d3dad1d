"""Simple graph convolution of Wu et al.: GCN without its activation."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.nn.features import Features
from glnn.quality.plain.base import TrainSettings
from glnn.quality.plain.problem import NodeProblem
from glnn_lab.baselines.inputs import Edges, InputMap
from glnn_lab.baselines.pyg import fused, layers
from glnn_lab.baselines.supervised import Network, NetworkBaseline


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
        self.smooth = fused(layers().SGConv(n_out, n_out, K=settings.n_steps))
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
        """Make the network on the given graph."""
        edges = Edges.of(problem.graph)
        return SGCNetwork(edges, x.shape[1], problem.n_classes, self.settings)
