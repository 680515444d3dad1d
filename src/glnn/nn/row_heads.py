"""What heads have in common that train on rows spread over the graph once, before training."""

from abc import abstractmethod
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from glnn.graph.adjacency import GraphOperator
from glnn.nn.features import Features, dropped, keep_mask
from glnn.nn.propagation import mean_of_powers

# --- column_norm: Columns on a common scale: measured once on all rows, then anew in each batch

_TINY = 1e-5
"""Added to a batch's variances, where the variance of all rows is one."""


class ColumnNorm(nn.Module):
    r"""Columns of mean 0 and variance 1, with a learned scale and shift of each.

    .. math:: \gamma \circ \frac{z - \mu}{\sigma} + \beta

    In training :math:`\mu, \sigma` are those of the batch, afterwards those of all rows. Small
    batches make noise of a kind that keeps a linear layer from relying on few rows; with weight
    decay on both, :math:`\gamma` and the layer after it choose among the columns.

    Batches are rows that :meth:`standardized` has brought to the statistics of all rows; a column
    that is constant there is zero.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, n_columns: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(n_columns))
        self.shift = nn.Parameter(torch.zeros(n_columns))
        self.register_buffer("mean", torch.zeros(n_columns))
        self.register_buffer("deviation", torch.ones(n_columns))

    def measure(self, mean: Float[Tensor, "d"], deviation: Float[Tensor, "d"]) -> None:
        """Keep the statistics of all rows; a column that does not vary has deviation 0."""
        self.mean.copy_(mean)
        self.deviation.copy_(deviation)

    def standardized(self, rows: Float[Tensor, "k d"]) -> Float[Tensor, "k d"]:
        r"""Return :math:`(z - \mu) / \sigma` with the statistics of all rows."""
        return (rows - self.mean).mul_(self._inverse())

    def forward(self, batch: Float[Tensor, "k d"]) -> Float[Tensor, "k d"]:
        """Return standardised rows with the statistics of the batch, on a GPU by one kernel."""
        if batch.is_cuda:
            return functional.batch_norm(
                batch, None, None, self.scale, self.shift, training=True, eps=_TINY
            )
        centred = batch - batch.mean(0)
        variance = centred.square().mean(0)
        return (centred * (variance + _TINY).rsqrt() * self.scale).add_(self.shift)

    def settled(self, rows: Float[Tensor, "k d"]) -> Float[Tensor, "k d"]:
        """Return standardised rows as they count after training."""
        return (rows * self.scale).add_(self.shift)

    def folded(self) -> tuple[Float[Tensor, "d"], Float[Tensor, "d"]]:
        r"""Return :math:`s, t` with which the settled columns of raw ones are :math:`s z + t`."""
        scale = self.scale * self._inverse()
        return scale, self.shift - self.mean * scale

    def _inverse(self) -> Float[Tensor, "d"]:
        return torch.where(self.deviation > 0, 1 / self.deviation.clamp_min(1e-30), 0.0)


# --- rows: What heads have in common that train on rows spread over the graph once, before trainin


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


# --- linear: One linear layer on the mean of a node's surroundings, column by column on a common s

Powers = Literal["mean", "last"]
"""Which powers of a random walk the surroundings are made of."""


class LinearNet(RowNet):
    r"""Logits :math:`N(S X)\,W + b`, :math:`S = \frac{1}{K+1} \sum_k P^k` of a random walk.

    With ``powers="last"`` it is :math:`S = P^K`: what a node's own features say counts least.
    :math:`N` is a :class:`~glnn.nn.row_heads.ColumnNorm`. It is linear once trained, so that
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


# --- hops: A perceptron that sees a node and each ring of its neighbourhood side by side

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
