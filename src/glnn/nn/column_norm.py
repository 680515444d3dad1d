"""Columns on a common scale: measured once on all rows, then anew in each batch."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

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
