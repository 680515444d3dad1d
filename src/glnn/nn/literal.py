"""The paper's graph learning layer as printed: all n x n entries as parameters."""

import torch
from torch import nn

from glnn.graph.dense import DenseAdjacency


class GraphLearningLayer(nn.Module):
    r"""A free matrix :math:`\hat A`, started uniform at random, and its symmetric part.

    Paper: eq:symmetrization, :math:`\hat A_{out} = \frac12 (\hat A^\top + \hat A)`. Kept for the
    record: trained as printed it does not reach a useful graph (see ``docs/paper_map.md``).
    """

    def __init__(self, n_nodes: int, *, generator: torch.Generator, high: float = 1.0) -> None:
        super().__init__()
        start = torch.rand(n_nodes, n_nodes, generator=generator) * high
        self.matrix = nn.Parameter(start)

    def forward(self) -> DenseAdjacency:
        """Return the symmetric output graph."""
        return DenseAdjacency((self.matrix.T + self.matrix) / 2)
