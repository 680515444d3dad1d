"""A perceptron on the features alone: what the graph adds is measured against it."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.nn.dropout import dropped
from glnn.nn.features import Features
from glnn.quality.plain.base import TrainSettings
from glnn.quality.plain.problem import NodeProblem
from glnn_lab.baselines.inputs import InputMap
from glnn_lab.baselines.supervised import Network, NetworkBaseline, rate


@dataclass(frozen=True, kw_only=True)
class MLPSettings(TrainSettings):
    """GCN's settings without its graph."""

    n_hidden: int = 16
    dropout: float = 0.5


class MLPNetwork(Network):
    r"""Two layers, :math:`Z = \mathrm{ReLU}(X W_0 + b_0)\,W_1 + b_1`."""

    def __init__(self, n_in: int, n_out: int, settings: MLPSettings) -> None:
        super().__init__()
        self.dropout = settings.dropout
        self.first_map = InputMap(n_in, settings.n_hidden)
        self.bias = nn.Parameter(torch.zeros(settings.n_hidden))
        self.second = nn.Linear(settings.n_hidden, n_out)
        nn.init.xavier_uniform_(self.second.weight)

    def forward(self, x: Features, noise: torch.Generator) -> Float[Tensor, "n c"]:
        """Return class logits."""
        drop = rate(self, self.dropout)
        hidden = torch.relu(self.first_map(x.dropped(drop, noise)) + self.bias)
        logits: Tensor = self.second(dropped(hidden, drop, noise))
        return logits


@dataclass(frozen=True)
class MLP(NetworkBaseline):
    """A two-layer perceptron; a given graph is not looked at."""

    name: ClassVar[str] = "mlp"
    title: ClassVar[str] = "MLP"
    paper: ClassVar[str] = "Kipf and Welling, ICLR 2017, as their control"
    needs_graph: ClassVar[bool] = False
    decayed: ClassVar[str] = "first"
    settings: MLPSettings = MLPSettings()

    def network(self, problem: NodeProblem, x: Features) -> MLPNetwork:
        """Make the perceptron."""
        return MLPNetwork(x.shape[1], problem.n_classes, self.settings)
