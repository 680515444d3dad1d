"""Mixture model network of Monti et al., on pseudo-coordinates made of node degrees."""

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
    import_layers,
)


@dataclass(frozen=True, kw_only=True)
class MoNetSettings(TrainSettings):
    """Two layers of 16 units, Gaussians over coordinates in the plane."""

    n_epochs: int = 500
    patience: int | None = 100
    n_hidden: int = 16
    dropout: float = 0.5
    n_kernels: int = 3
    n_coordinates: int = 2
    aggregation: str = "mean"


class MoNetwork(Network):
    r"""Two layers of :math:`z_i = \sum_j \sum_k w_k(u_{ij})\, x_j G_k`.

    .. math:: w_k(u) = \exp\bigl(-\tfrac12 (u - \mu_k)^\top \Sigma_k^{-1} (u - \mu_k)\bigr),
              \qquad u_{ij} = \tanh\bigl(B\,(d_i^{-1/2}, d_j^{-1/2})^\top + b\bigr)

    over the neighbours and the node itself, so that isolated nodes keep their features.
    """

    def __init__(self, edges: Edges, n_in: int, n_out: int, settings: MoNetSettings) -> None:
        super().__init__()
        conv = import_layers().GMMConv
        width, n_kernels = settings.n_hidden, settings.n_kernels
        self.dropout, n_axes = settings.dropout, settings.n_coordinates
        self.index, self.degrees = degree_coordinates(edges)
        self.first_map = InputMap(n_in, width * n_kernels)
        options = {"aggr": settings.aggregation, "root_weight": False}
        self.first = conv(width * n_kernels, width, n_axes, n_kernels, **options)
        del self.first.g
        self.first.register_buffer("g", torch.eye(width * n_kernels), persistent=False)
        self.first.root = self.root = None
        self.second = conv(width, n_out, n_axes, n_kernels, **options)
        self.second.root = None
        for layer in (self.first, self.second):
            nn.init.normal_(layer.mu, 0.0, 0.1)
            nn.init.ones_(layer.sigma)
        self.first_axes, self.second_axes = (nn.Linear(2, n_axes) for _ in range(2))

    def forward(self, x: Features, noise: torch.Generator) -> Float[Tensor, "n c"]:
        """Return class logits."""
        drop = current_dropout(self, self.dropout)
        mapped = self.first_map(x.apply_dropout(drop, noise))
        axes = torch.tanh(self.first_axes(self.degrees))
        hidden = apply_dropout(torch.relu(self.first(mapped, self.index, axes)), drop, noise)
        logits: Tensor = self.second(hidden, self.index, torch.tanh(self.second_axes(self.degrees)))
        return logits


def degree_coordinates(edges: Edges) -> tuple[Tensor, Tensor]:
    r"""Return the edges with a loop at every node, and :math:`(d_i^{-1/2}, d_j^{-1/2})` of each."""
    own = torch.arange(edges.n_nodes)
    index = torch.cat([edges.index, torch.stack([own, own])], 1)
    inverse = torch.bincount(index[0], minlength=edges.n_nodes).float().rsqrt()
    return index, torch.stack([inverse[index[0]], inverse[index[1]]], 1)


@dataclass(frozen=True)
class MoNet(NetworkBaseline):
    """MoNet on the degree coordinates that its authors used for citation networks."""

    name: ClassVar[str] = "monet"
    title: ClassVar[str] = "MoNet"
    paper: ClassVar[str] = (
        "Monti et al., Geometric deep learning on graphs and manifolds using mixture model CNNs, "
        "CVPR 2017"
    )
    settings: MoNetSettings = MoNetSettings()

    def network(self, problem: NodeProblem, x: Features) -> MoNetwork:
        """Build the network on the given graph."""
        edges = Edges.of(problem.graph)
        return MoNetwork(edges, x.shape[1], problem.n_classes, self.settings)
