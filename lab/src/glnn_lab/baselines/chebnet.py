"""Chebyshev spectral network of Defferrard et al., in the two-layer form of Kipf and Welling."""

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
class ChebNetSettings(TrainSettings):
    """As published beside GCN: 16 hidden units, polynomials up to degree 2."""

    n_hidden: int = 16
    dropout: float = 0.5
    degree: int = 2


class ChebNetwork(Network):
    r"""Two layers of :math:`Z = \sum_{k=0}^{K} T_k(\hat L) X W_k`, :math:`\hat L = L - I`.

    :math:`L = I - D^{-1/2} A D^{-1/2}` has its spectrum in :math:`[0, 2]`, so 2 stands for its
    largest eigenvalue. The features arrive mapped, :math:`[X W_0 | \dots | X W_K]`, and the
    first layer's own maps each pick one of the blocks.
    """

    def __init__(self, edges: Edges, n_in: int, n_out: int, settings: ChebNetSettings) -> None:
        super().__init__()
        conv = import_layers().ChebConv
        n_hidden, n_terms = settings.n_hidden, settings.degree + 1
        self.edges, self.dropout = edges, settings.dropout
        self.first_map = InputMap(n_in, n_hidden, n_terms)
        self.first = fuse_messages(conv(n_hidden * n_terms, n_hidden, K=n_terms))
        self.first.lins = nn.ModuleList(_Block(k, n_hidden) for k in range(n_terms))
        self.second = fuse_messages(conv(n_hidden, n_out, K=n_terms))

    def forward(self, x: Features, noise: torch.Generator) -> Float[Tensor, "n c"]:
        """Return class logits."""
        drop = current_dropout(self, self.dropout)
        graph = (self.edges.index, self.edges.weight, None, 2.0)
        hidden = torch.relu(self.first(self.first_map(x.apply_dropout(drop, noise)), *graph))
        logits: Tensor = self.second(apply_dropout(hidden, drop, noise), *graph)
        return logits


class _Block(nn.Module):
    """Pick the ``k``-th block of columns."""

    def __init__(self, k: int, width: int) -> None:
        super().__init__()
        self.columns = slice(k * width, (k + 1) * width)

    def forward(self, x: Float[Tensor, "n kh"]) -> Float[Tensor, "n h"]:
        return x[:, self.columns]


@dataclass(frozen=True)
class ChebNet(NetworkBaseline):
    """ChebNet with the settings under which its citation numbers were published."""

    name: ClassVar[str] = "chebnet"
    title: ClassVar[str] = "ChebNet"
    paper: ClassVar[str] = (
        "Defferrard, Bresson and Vandergheynst, Convolutional neural networks on graphs with "
        "fast localized spectral filtering, NIPS 2016"
    )
    decayed: ClassVar[str] = "first"
    settings: ChebNetSettings = ChebNetSettings()

    def network(self, problem: NodeProblem, x: Features) -> ChebNetwork:
        """Build the network on the given graph."""
        edges = Edges.of(problem.graph)
        return ChebNetwork(edges, x.shape[1], problem.n_classes, self.settings)
