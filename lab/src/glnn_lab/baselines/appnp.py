"""APPNP of Gasteiger et al.: an MLP whose predictions are propagated by PageRank."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.nn.features import Features, apply_dropout
from glnn.quality.rivals import NodeProblem
from glnn_lab.baselines.base import TrainSettings
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
class APPNPSettings(TrainSettings):
    """Published: 64 units, 10 steps, teleport 0.1, strong decay on the first layer."""

    n_epochs: int = 1000
    weight_decay: float = 5e-3
    patience: int | None = 100
    n_hidden: int = 64
    dropout: float = 0.5
    n_steps: int = 10
    teleport: float = 0.1


class APPNPNetwork(Network):
    r"""Predict, then propagate: :math:`Z_{k+1} = (1 - \gamma) \hat A Z_k + \gamma Z_0`.

    :math:`Z_0 = \mathrm{ReLU}(X W_0 + b_0)\,W_1 + b_1`.

    Notes
    -----
    Differs from the paper: no dropout on edges. The layer of PyTorch Geometric accumulates it from
    step to step, so that after ten steps hardly any edge is left.
    """

    def __init__(self, edges: Edges, n_in: int, n_out: int, settings: APPNPSettings) -> None:
        super().__init__()
        self.edges, self.dropout = edges, settings.dropout
        self.first_map = InputMap(n_in, settings.n_hidden)
        self.bias = nn.Parameter(torch.zeros(settings.n_hidden))
        self.second = nn.Linear(settings.n_hidden, n_out)
        spread = import_layers().APPNP
        self.spread = fuse_messages(spread(settings.n_steps, settings.teleport, cached=True))

    def forward(self, x: Features, noise: torch.Generator) -> Float[Tensor, "n c"]:
        """Return class logits."""
        drop = current_dropout(self, self.dropout)
        hidden = torch.relu(self.first_map(x.apply_dropout(drop, noise)) + self.bias)
        predicted = self.second(apply_dropout(hidden, drop, noise))
        logits: Tensor = self.spread(predicted, self.edges.index, self.edges.weight)
        return logits


@dataclass(frozen=True)
class APPNP(NetworkBaseline):
    """APPNP as published."""

    name: ClassVar[str] = "appnp"
    title: ClassVar[str] = "APPNP"
    paper: ClassVar[str] = "Gasteiger, Bojchevski and Günnemann, Predict then propagate, ICLR 2019"
    decayed: ClassVar[str] = "first"
    settings: APPNPSettings = APPNPSettings()

    def network(self, problem: NodeProblem, x: Features) -> APPNPNetwork:
        """Build the network on the given graph."""
        edges = Edges.of(problem.graph)
        return APPNPNetwork(edges, x.shape[1], problem.n_classes, self.settings)
