"""One linear layer on the mean of a node's surroundings, column by column on a common scale."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glnn.graph.base import GraphOperator
from glnn.nn.column_norm import ColumnNorm
from glnn.nn.dropout import keep_mask
from glnn.nn.features import Features
from glnn.nn.propagation import mean_of_powers
from glnn.nn.rows import RowNet

Powers = Literal["mean", "last"]
"""Which powers of a random walk the surroundings are made of."""


class LinearNet(RowNet):
    r"""Logits :math:`N(S X)\,W + b`, :math:`S = \frac{1}{K+1} \sum_k P^k` of a random walk.

    With ``powers="last"`` it is :math:`S = P^K`: what a node's own features say counts least.
    :math:`N` is a :class:`~glnn.nn.column_norm.ColumnNorm`. It is linear once trained, so that
    :math:`N(S X) W = S (X\,\mathrm{diag}(s) W) + t^\top W`: all nodes cost a product with as many
    columns as there are classes.
    """

    needs_loops = True

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        dropout: float,
        n_steps: int,
        generator: torch.Generator,
        powers: Powers = "mean",
    ) -> None:
        super().__init__()
        bound = n_features**-0.5
        weight = torch.empty(n_features, n_classes).uniform_(-bound, bound, generator=generator)
        self.norm = ColumnNorm(n_features)
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(torch.zeros(n_classes))
        self.dropout, self.n_steps, self.powers = dropout, n_steps, powers

    def spread(self, walk: GraphOperator, x: Float[Tensor, "n d"]) -> Float[Tensor, "n 1 d"]:
        """Return the mean of powers of some feature columns."""
        return self._surroundings(walk, x)[:, None]

    def views(
        self, batch: Float[Tensor, "b d"], n_views: int, generator: torch.Generator
    ) -> Float[Tensor, "v b c"]:
        """Return the logits of several passes over standardised rows that differ in dropout."""
        columns = self.norm(batch)
        if self.dropout == 0:
            return self._layer(columns).expand(n_views, -1, -1)
        mask = keep_mask(columns.new_empty(n_views, *columns.shape), self.dropout, generator)
        return self._layer(columns * mask)

    def of_rows(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, "b c"]:
        """Return the logits of standardised rows without any randomness."""
        return self._layer(self.norm.settled(rows))

    def forward(self, walk: GraphOperator, x: Features) -> Float[Tensor, "n c"]:
        """Return the logits of every node from its raw features, without any randomness."""
        scale, shift = self.norm.folded()
        spread = self._surroundings(walk, x @ (scale[:, None] * self.weight))
        return spread + (shift @ self.weight + self.bias)

    def _surroundings(self, walk: GraphOperator, x: Float[Tensor, "n d"]) -> Float[Tensor, "n d"]:
        if self.powers == "mean":
            return mean_of_powers(walk, x, self.n_steps)
        for _ in range(self.n_steps):
            x = walk @ x
        return x

    def _layer(self, columns: Float[Tensor, "... d"]) -> Float[Tensor, "... c"]:
        return columns @ self.weight + self.bias
