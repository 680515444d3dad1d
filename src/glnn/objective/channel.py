"""The graph Laplacian regulariser of one reading: squared, channel by channel."""

import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.base import Adjacency
from glnn.graph.implicit import Factor, Implicit
from glnn.graph.pairs import Pairs
from glnn.graph.row_base import RowMatrix
from glnn.graph.spread import SpreadRows
from glnn.objective.base import QuadraticTerm
from glnn.objective.new_row import RowShare
from glnn.objective.pair_map import PairMap
from glnn.objective.smoothness import SignalTerm
from glnn.peers.once import computed_once

WIDEST = 512
"""Channels up to which a dense matrix of them pays."""


class ChannelSmoothness(SignalTerm, QuadraticTerm):
    r"""Squared regulariser of each channel, :math:`\sum_c (x_c^\top (I - A) x_c)^2`.

    Paper: the loss :math:`\mathcal{L}_{GLR}`, whose ``x`` is one signal, summed over channels.
    As a penalty, :math:`T_c(A) = x_c^\top A x_c`, :math:`\tau_c = x_c^\top x_c` and
    :math:`T^*(y)_{ij} = \sum_c y_c x_{ic} x_{jc}`.

    Examples
    --------
    >>> from glnn.graph.spread import spread
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> ChannelSmoothness(1.0, spread(torch.tensor([[0.0], [2.0]]))).value(pair)
    tensor(16.)
    """

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        x = self.signal.own.dense()
        per_channel = (x * (x - adj @ x)).sum(0)  # x_c'(I - A)x_c
        return per_channel.square().sum()

    @computed_once
    def target(self) -> Tensor:
        r"""Return the energies :math:`x_c^\top x_c`."""
        own = self.signal.own
        ones = torch.ones(len(own), dtype=own.dtype, device=own.device)
        return self.signal.summed(own.squared().column_sums(ones))

    def image(self, adj: Adjacency) -> Tensor:
        """Return the energy of every channel over the graph."""
        x = self.signal.own.dense()
        return (x * (adj @ x)).sum(0)

    def adjoint(self, y: Tensor) -> Implicit:
        """Return the similarity with weighted channels."""
        weighted = self.signal.with_own(self.signal.own.scaled(y))
        return Implicit(factors=(Factor(weighted, self.signal),))

    def on(self, pairs: Pairs) -> PairMap:
        """Return the map through the products of every pair."""
        return ChannelMap(pairs, self.signal)

    def new_row(self, dual: Tensor | None) -> RowShare:
        """Return the similarity that the dual point implies: the energies are linearised there."""
        assert dual is not None  # it is a penalty
        return RowShare(metrics=(-dual,))


class ChannelMap(PairMap):
    r"""The channel energies through the products :math:`x_{ic} x_{jc}` of every pair."""

    def __init__(self, pairs: Pairs, signal: SpreadRows) -> None:
        self.pairs, self._products = pairs, _products(pairs, signal)

    def apply(self, values: Tensor) -> Tensor:  # noqa: D102
        return self._products.column_sums(values * self.pairs.counts)

    def adjoint(self, y: Tensor) -> Tensor:  # noqa: D102
        return self._products.times(y[:, None])[:, 0]

    def squares(self, active: Tensor) -> Tensor:  # noqa: D102
        return self._products.squared().column_sums(active * self.pairs.counts)

    def columns(self, place: slice) -> Tensor | None:  # noqa: D102
        wide = self._products.n_columns > WIDEST
        return None if wide else self._products.block(place).dense()


def _products(pairs: Pairs, signal: SpreadRows) -> RowMatrix:
    """Return the products of both ends of every pair, the rows of other processes coming by."""
    parts, places = [], []
    for rank, block in signal.blocks():
        mine, far, near = pairs.meetings[rank]
        parts.append(signal.own.products(block, near, far))
        if mine is None:
            return parts[0]
        places.append(mine)
    whole = parts[0].joined(parts[1:])
    return whole.take(torch.cat(places).argsort())
