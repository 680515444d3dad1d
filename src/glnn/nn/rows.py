"""What heads have in common that train on rows spread over the graph once, before training."""

from abc import abstractmethod

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.graph.base import GraphOperator
from glnn.nn.column_norm import ColumnNorm
from glnn.nn.features import Features


class RowNet(nn.Module):
    """A head whose first layer is linear in the features, so that spreading them comes first.

    Training needs :meth:`spread` features of few nodes only; afterwards the layer is applied to
    the features of all nodes and its few outputs are spread, which is the same.
    """

    norm: ColumnNorm
    needs_loops: bool
    """Whether a node is among its own neighbours in the walk that the head sees."""

    @abstractmethod
    def spread(self, walk: GraphOperator, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k d"]:
        """Return what the first layer sees of some feature columns, in ``k`` blocks."""

    @abstractmethod
    def views(
        self, batch: Float[Tensor, "b f"], n_views: int, generator: torch.Generator
    ) -> Float[Tensor, "v b c"]:
        """Return the logits of several passes over standardised rows that differ in dropout."""

    @abstractmethod
    def of_rows(self, rows: Float[Tensor, "b f"]) -> Float[Tensor, "b c"]:
        """Return the logits of standardised rows without any randomness."""

    @abstractmethod
    def forward(self, walk: GraphOperator, x: Features) -> Float[Tensor, "n c"]:
        """Return the logits of every node from its raw features, without any randomness."""
