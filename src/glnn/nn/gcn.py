"""The paper's classifier (a two-layer GCN) and its graph learning layer as printed."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.graph.adjacency import DenseAdjacency, GraphOperator
from glnn.nn.features import Features, NetworkSettings, apply_dropout


class GraphConvolution(nn.Module):
    r"""One GCN layer, :math:`Z = \hat A X W + b`, with a normalised graph :math:`\hat A`."""

    def __init__(self, d_in: int, d_out: int, *, generator: torch.Generator) -> None:
        super().__init__()
        weight = torch.empty(d_in, d_out)
        self.weight = nn.Parameter(nn.init.xavier_uniform_(weight, generator=generator))
        self.bias = nn.Parameter(torch.zeros(d_out))

    def forward(
        self, adj_hat: GraphOperator, x: Features | Float[Tensor, "n d_in"]
    ) -> Float[Tensor, "n d_out"]:
        """Return the convolved signals of every node."""
        return adj_hat @ (x @ self.weight) + self.bias


class GCN(nn.Module):
    r"""Logits of two graph convolutions, :math:`\hat A\,\mathrm{ReLU}(\hat A X W_0)\,W_1`.

    Paper: section "Graph Convolution and Feature Transfer"; 16 hidden units, dropout 0.5 of the
    inputs of both layers.
    """

    def __init__(
        self, n_features: int, n_classes: int, settings: NetworkSettings, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.first = GraphConvolution(n_features, settings.n_hidden, generator=generator)
        self.second = GraphConvolution(settings.n_hidden, n_classes, generator=generator)
        self.dropout = settings.dropout

    def forward(
        self, adj_hat: GraphOperator, x: Features, generator: torch.Generator | None = None
    ) -> Float[Tensor, "n c"]:
        """Return class logits; dropout is applied if a generator is given."""
        rate = 0.0 if generator is None else self.dropout
        generator = generator or torch.Generator()
        hidden = torch.relu(self.first(adj_hat, x.apply_dropout(rate, generator)))
        logits: Tensor = self.second(adj_hat, apply_dropout(hidden, rate, generator))
        return logits

    def propagate(self, adj_hat: GraphOperator, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        r"""Propagate signals over both layers, :math:`\hat A^2 X`."""
        return adj_hat @ (adj_hat @ x)

    def views(
        self, adj_hat: GraphOperator, x: Features, n_views: int, generator: torch.Generator
    ) -> Float[Tensor, "v n c"]:
        """Return the logits of several passes with different dropout masks."""
        return torch.stack([self(adj_hat, x, generator) for _ in range(n_views)])


class GraphLearningLayer(nn.Module):
    r"""The symmetric part of a free n x n matrix :math:`\hat A`, drawn uniformly at the start.

    Paper: eq:symmetrization, :math:`\hat A_{out} = \frac12 (\hat A^\top + \hat A)`. Kept for
    reference: trained as printed it does not reach a useful graph (see ``docs/paper_map.md``).
    """

    def __init__(self, n_nodes: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.rand(n_nodes, n_nodes, generator=generator))

    def forward(self) -> DenseAdjacency:
        """Return the symmetric output graph."""
        return DenseAdjacency((self.matrix.T + self.matrix) / 2)
