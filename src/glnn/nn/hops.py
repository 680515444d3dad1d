"""A perceptron that sees a node and each ring of its neighbourhood side by side."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from glnn.graph.base import GraphOperator
from glnn.nn.column_norm import ColumnNorm
from glnn.nn.dropout import dropped
from glnn.nn.features import Features
from glnn.nn.rows import RowNet

_MOMENTUM = 0.1
"""How much of the statistics of hidden signals a batch replaces."""


class HopsNet(RowNet):
    r"""Logits of a two-layer perceptron on :math:`[X, PX, \dots, P^K X]`.

    .. math:: \mathrm{ReLU}\Bigl(N'\bigl(\textstyle\sum_k N(P^k X)\,W_k\bigr)\Bigr) W' + b'

    :math:`P` is the random walk without loops, so that a node and its neighbours stay apart: where
    they differ in class, or the class is a count of neighbours, a mean of both destroys what
    counts. :math:`N` and :math:`N'` normalise columns over a batch. With no steps it is a
    perceptron on the features alone.
    """

    needs_loops = False

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        n_hidden: int,
        dropout: float,
        n_steps: int,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        n_columns = (n_steps + 1) * n_features
        first, second = torch.empty(n_columns, n_hidden), torch.empty(n_hidden, n_classes)
        self.norm = ColumnNorm(n_columns)
        self.first = nn.Parameter(nn.init.xavier_uniform_(first, generator=generator))
        self.hidden = nn.BatchNorm1d(n_hidden, momentum=_MOMENTUM)
        self.second = nn.Parameter(nn.init.xavier_uniform_(second, generator=generator))
        self.bias = nn.Parameter(torch.zeros(n_classes))
        self.dropout, self.n_steps = dropout, n_steps

    def spread(self, walk: GraphOperator, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k d"]:
        """Return some feature columns after 0 to ``n_steps`` steps."""
        hops = [x]
        for _ in range(self.n_steps):
            hops.append(walk @ hops[-1])
        return torch.stack(hops, 1)

    def views(
        self, batch: Float[Tensor, "b f"], n_views: int, generator: torch.Generator
    ) -> Float[Tensor, "v b c"]:
        """Return the logits of several passes over standardised rows that differ in dropout."""
        columns = self.norm(batch)
        return torch.stack([self._pass(columns, generator) for _ in range(n_views)])

    def of_rows(self, rows: Float[Tensor, "b f"]) -> Float[Tensor, "b c"]:
        """Return the logits of standardised rows without any randomness."""
        return self._settled(self.norm.settled(rows) @ self.first)

    def forward(self, walk: GraphOperator, x: Features) -> Float[Tensor, "n c"]:
        r"""Return the logits of every node from its raw features, without any randomness.

        The first layer is summed by Horner's rule, :math:`z \leftarrow P z + X W_k`.
        """
        scale, shift = self.norm.folded()
        blocks = (scale[:, None] * self.first).view(self.n_steps + 1, x.shape[1], -1)
        z = x @ blocks[-1]
        for block in reversed(blocks[:-1]):
            z = walk @ z + x @ block
        return self._settled(z + shift @ self.first)

    def _pass(
        self, columns: Float[Tensor, "b f"], generator: torch.Generator
    ) -> Float[Tensor, "b c"]:
        """Train on a batch: hidden signals have its statistics, which are kept as a moving mean."""
        z = dropped(columns, self.dropout, generator) @ self.first
        hidden = torch.relu(self._normalized(z, is_training=True))
        return dropped(hidden, self.dropout, generator) @ self.second + self.bias

    def _settled(self, z: Float[Tensor, "b h"]) -> Float[Tensor, "b c"]:
        return torch.relu(self._normalized(z, is_training=False)) @ self.second + self.bias

    def _normalized(self, z: Float[Tensor, "b h"], *, is_training: bool) -> Float[Tensor, "b h"]:
        norm = self.hidden
        return functional.batch_norm(
            z,
            norm.running_mean,
            norm.running_var,
            norm.weight,
            norm.bias,
            training=is_training,
            momentum=_MOMENTUM,
        )
