"""Heads that train on rows of features which were propagated once, before training.

Their first layer is linear in the propagated features. So training needs the propagated features
of few nodes only. For predictions the layer is applied to the features of all nodes and its few
outputs are propagated, which is equivalent.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from glnn.graph.adjacency import GraphOperator
from glnn.nn.features import Features, NetworkSettings, apply_dropout, keep_mask
from glnn.nn.losses import cross_entropy_gradient, distance_gradient, softmax_by_class
from glnn.nn.propagation import mean_of_powers


class ColumnNorm(nn.Module):
    r"""Standardises columns, with a learned scale and shift for each.

    .. math:: \gamma \circ \frac{z - \mu}{\sigma} + \beta

    In training :math:`\mu, \sigma` are those of the batch, afterwards those of all rows. The noise
    of small batches keeps a linear layer from relying on few rows; weight decay on
    :math:`\gamma` and on the next layer selects columns.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, n_columns: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(n_columns))
        self.shift = nn.Parameter(torch.zeros(n_columns))
        self.register_buffer("mean", torch.zeros(n_columns))
        self.register_buffer("deviation", torch.ones(n_columns))

    def set_statistics(self, mean: Float[Tensor, "d"], deviation: Float[Tensor, "d"]) -> None:
        """Set the statistics of all rows; a constant column has deviation 0."""
        self.mean.copy_(mean)
        self.deviation.copy_(deviation)

    def standardize(self, rows: Float[Tensor, "k d"]) -> Float[Tensor, "k d"]:
        r"""Return :math:`(z - \mu) / \sigma` with the statistics of all rows."""
        return (rows - self.mean).mul_(self._inverse())

    def forward(self, batch: Float[Tensor, "k d"]) -> Float[Tensor, "k d"]:
        """Normalise standardised rows with the statistics of the batch (training)."""
        return (normalize_batch(batch) * self.scale).add_(self.shift)

    def fold_affine(self) -> tuple[Float[Tensor, "d"], Float[Tensor, "d"]]:
        r"""Return :math:`s, t` such that raw columns become :math:`s z + t` after training."""
        scale = self.scale * self._inverse()
        return scale, self.shift - self.mean * scale

    def _inverse(self) -> Float[Tensor, "d"]:
        return torch.where(self.deviation > 0, 1 / self.deviation.clamp_min(1e-30), 0.0)


def normalize_batch(batch: Float[Tensor, "k d"]) -> Float[Tensor, "k d"]:
    """Return a batch with columns of mean 0 and variance 1; it takes no gradient."""
    centred = batch - batch.mean(0)
    return centred.mul_((centred.square().mean(0) + 1e-5).rsqrt())


LinearTrace = tuple[Tensor, Tensor | None, Tensor]  # normalised rows, mask, their product
ViewTargets = Callable[[Tensor], tuple[Tensor, Tensor]]  # from views to targets and weights


class LinearNet(nn.Module):
    r"""Logits :math:`N(S X)\,W + b`, :math:`S = \frac{1}{K+1} \sum_k P^k` of a random walk.

    :math:`N` is a :class:`ColumnNorm`. It is linear after training, so :math:`N(S X) W = S
    (X\,\mathrm{diag}(s) W) + t^\top W`, and only a column a class is propagated.
    """

    needs_loops = True  # in the random walk

    def __init__(
        self, n_features: int, n_classes: int, settings: NetworkSettings, generator: torch.Generator
    ) -> None:
        super().__init__()
        bound = n_features**-0.5
        # class by class: with few classes the products are several times faster
        weight = torch.empty(n_classes, n_features).uniform_(-bound, bound, generator=generator)
        self.norm = ColumnNorm(n_features)
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(torch.zeros(n_classes))
        self.dropout, self.n_steps = settings.dropout, settings.n_steps

    def propagate(self, walk: GraphOperator, x: Float[Tensor, "n d"]) -> Float[Tensor, "n 1 d"]:
        """Return some feature columns after propagation by :math:`S`."""
        return mean_of_powers(walk, x, self.n_steps)[:, None]

    def trace_views(
        self, batch: Float[Tensor, "b d"], n_views: int, generator: torch.Generator
    ) -> tuple[Float[Tensor, "v b c"], LinearTrace]:
        r"""Return :math:`((\gamma \circ z + \beta) \circ m) W^\top + b` of several masks :math:`m`.

        These are the logits of passes over standardised rows with different dropout.

        Also returns what :meth:`set_gradients` needs: a step on a few rows is mostly overhead, and
        autograd would take a third of it.
        """
        mask, norm = None, self.norm
        if self.dropout:
            mask = keep_mask(batch.new_empty(n_views, *batch.shape), self.dropout, generator)
        normalized = normalize_batch(batch)
        columns = torch.addcmul(norm.shift, normalized, norm.scale)
        masked = columns.expand(n_views, -1, -1) if mask is None else columns * mask
        masked = masked.reshape(-1, batch.shape[1])
        logits = (self.weight @ masked.T).T.add_(self.bias)
        return logits.view(n_views, len(batch), -1), (normalized, mask, masked)

    @torch.inference_mode()
    def set_loss_gradients(
        self,
        batch: Float[Tensor, "b d"],
        n_views: int,
        generator: torch.Generator,
        classes: Int[Tensor, "l"],  # of the first rows
        weights: Float[Tensor, "l"] | None,  # of these labels
        targets_of: ViewTargets | None,  # of the agreement of views; ``None``: they need not agree
        factor: float | Float[Tensor, ""],  # on their agreement
    ) -> dict[str, Float[Tensor, ""]]:
        """Return the terms of the loss on a mini-batch, and set the gradients of the parameters."""
        logits, trace = self.trace_views(batch, n_views, generator)
        loss, gradient = cross_entropy_gradient(logits, classes, weights)
        terms = {"cross_entropy": loss}
        if targets_of is not None:
            views = softmax_by_class(logits)
            terms["consistency"], more = distance_gradient(views, *targets_of(views), factor)
            gradient += more
        self.set_gradients(gradient, trace)
        return terms

    @torch.no_grad()
    def set_gradients(self, for_logits: Float[Tensor, "v b c"], trace: LinearTrace) -> None:
        """Set the gradients of the parameters, given that of the logits of the views."""
        normalized, mask, masked = trace
        flat = for_logits.reshape(len(masked), -1)
        for_columns = (flat @ self.weight).view(-1, *normalized.shape)
        if mask is not None:
            for_columns.mul_(mask)
        summed = for_columns[0] + for_columns[1] if len(for_columns) == 2 else for_columns.sum(0)
        self.norm.scale.grad, self.norm.shift.grad = (summed * normalized).sum(0), summed.sum(0)
        self.weight.grad, self.bias.grad = flat.T @ masked, flat.sum(0)

    def row_logits(self, rows: Float[Tensor, "b d"]) -> Float[Tensor, "b c"]:
        """Return the logits of standardised rows without dropout."""
        logits = ((self.norm.scale * self.weight) @ rows.T).T
        return logits + (self.weight @ self.norm.shift + self.bias)

    def forward(self, walk: GraphOperator, x: Features) -> Float[Tensor, "n c"]:
        """Return the logits of every node from its raw features, without dropout."""
        scale, shift = self.norm.fold_affine()
        columns = x @ (scale * self.weight).T.contiguous()
        return mean_of_powers(walk, columns, self.n_steps) + (self.weight @ shift + self.bias)


class HopsNet(nn.Module):
    r"""Logits of a two-layer perceptron on :math:`[X, PX, \dots, P^K X]`.

    .. math:: \mathrm{ReLU}\Bigl(N'\bigl(\textstyle\sum_k N(P^k X)\,W_k\bigr)\Bigr) W' + b'

    :math:`P` is the random walk without loops, which keeps a node and its neighbours apart: a mean
    of both loses what tells their classes apart. :math:`N` and :math:`N'` normalise columns over a
    batch. Without steps it is a perceptron on the features.
    """

    needs_loops = False  # in the random walk

    def __init__(
        self, n_features: int, n_classes: int, settings: NetworkSettings, generator: torch.Generator
    ) -> None:
        super().__init__()
        n_hidden, n_columns = settings.n_hidden, (settings.n_steps + 1) * n_features
        first, second = torch.empty(n_columns, n_hidden), torch.empty(n_hidden, n_classes)
        self.norm = ColumnNorm(n_columns)
        self.first = nn.Parameter(nn.init.xavier_uniform_(first, generator=generator))
        self.hidden = nn.BatchNorm1d(n_hidden)
        self.second = nn.Parameter(nn.init.xavier_uniform_(second, generator=generator))
        self.bias = nn.Parameter(torch.zeros(n_classes))
        self.dropout, self.n_steps = settings.dropout, settings.n_steps

    def propagate(self, walk: GraphOperator, x: Float[Tensor, "n d"]) -> Float[Tensor, "n k d"]:
        """Return some feature columns after 0 to ``n_steps`` steps of the walk."""
        hops = [x]
        for _ in range(self.n_steps):
            hops.append(walk @ hops[-1])
        return torch.stack(hops, 1)

    def views(
        self, batch: Float[Tensor, "b f"], n_views: int, generator: torch.Generator
    ) -> Float[Tensor, "v b c"]:
        """Return the logits of several passes over standardised rows with different dropout."""
        columns, views = self.norm(batch), []
        for _ in range(n_views):
            z = apply_dropout(columns, self.dropout, generator) @ self.first
            hidden = apply_dropout(self._activate(z, is_training=True), self.dropout, generator)
            views.append(hidden @ self.second + self.bias)
        return torch.stack(views)

    def row_logits(self, rows: Float[Tensor, "b f"]) -> Float[Tensor, "b c"]:
        """Return the logits of standardised rows without dropout."""
        z = rows @ (self.norm.scale[:, None] * self.first)
        hidden = self._activate(z + self.norm.shift @ self.first, is_training=False)
        return hidden @ self.second + self.bias

    def forward(self, walk: GraphOperator, x: Features) -> Float[Tensor, "n c"]:
        r"""Return the logits of every node from its raw features, without dropout.

        The first layer is summed by Horner's rule, :math:`z \leftarrow P z + X W_k`.
        """
        scale, shift = self.norm.fold_affine()
        blocks = (scale[:, None] * self.first).view(self.n_steps + 1, x.shape[1], -1)
        z = x @ blocks[-1]
        for block in reversed(blocks[:-1]):
            z = walk @ z + x @ block
        hidden = self._activate(z + shift @ self.first, is_training=False)
        return hidden @ self.second + self.bias

    def _activate(self, z: Float[Tensor, "b h"], *, is_training: bool) -> Float[Tensor, "b h"]:
        """Normalise and rectify hidden units; in training, update the running statistics."""
        norm = self.hidden
        statistics = (norm.running_mean, norm.running_var, norm.weight, norm.bias)
        return torch.relu(functional.batch_norm(z, *statistics, training=is_training))


RowNet: TypeAlias = LinearNet | HopsNet
