"""The graph Laplacian regulariser of one reading: the linear one."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from glnn.distributed import computed_once
from glnn.graph.adjacency import Adjacency
from glnn.graph.pairs import Factor, Implicit, Pairs, SpreadRows
from glnn.graph.rows import CsrMatrix, CsrPattern, DenseRows, RowMatrix, product
from glnn.objective.base import PairMap, QuadraticTerm, RowShare, Term

# --- smoothness: The graph Laplacian regulariser of one reading: the linear one


@dataclass(frozen=True, eq=False)
class SignalTerm(Term):
    """A reading of the regulariser: how smooth signals are over a graph."""

    weight: float | int
    signal: SpreadRows
    name: str = "smoothness"


class TraceSmoothness(SignalTerm):
    r"""Graph Laplacian regulariser :math:`\operatorname{tr}(X^\top (I - A) X)`.

    Paper: the exponent of the likelihood (eq:final_likelihood_func), summed over channels.

    Examples
    --------
    >>> from glnn.graph.pairs import spread
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> TraceSmoothness(1.0, spread(torch.tensor([[0.0], [2.0]]))).value(pair)
    tensor(4.)
    """

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        x = self.signal.own.dense()
        return (x * (x - adj @ x)).sum()

    def linear(self) -> Implicit:
        r"""Return :math:`\lambda_0\, x_i \cdot x_j`."""
        return Implicit(factors=(Factor(self.signal, self.signal, self.weight),))

    def new_row(self, dual: Tensor | None) -> RowShare:
        """Return the similarity to every node."""
        return RowShare(metrics=(torch.tensor(float(self.weight), dtype=torch.float64),))


# --- channel: The graph Laplacian regulariser of one reading: squared, channel by channel

WIDEST = 512
"""Channels up to which a dense matrix of them pays."""


class ChannelSmoothness(SignalTerm, QuadraticTerm):
    r"""Squared regulariser of each channel, :math:`\sum_c (x_c^\top (I - A) x_c)^2`.

    Paper: the loss :math:`\mathcal{L}_{GLR}`, whose ``x`` is one signal, summed over channels.
    As a penalty, :math:`T_c(A) = x_c^\top A x_c`, :math:`\tau_c = x_c^\top x_c` and
    :math:`T^*(y)_{ij} = \sum_c y_c x_{ic} x_{jc}`.

    Examples
    --------
    >>> from glnn.graph.pairs import spread
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


# --- frobenius: The graph Laplacian regulariser of one reading: the squared norm of the whole prod

_RANK = 1e-14  # eigenvalues of the signals below this share of the largest are rounding


class FrobeniusSmoothness(SignalTerm, QuadraticTerm):
    r"""Squared norm of the whole product, :math:`\|X^\top (I - A) X\|_F^2`.

    Paper: the loss :math:`\mathcal{L}_{GLR}` read literally for a matrix of signals. As a
    penalty, :math:`T(A) = X^\top A X`, flat, :math:`\tau = X^\top X`, and
    :math:`T^*(Y)_{ij} = x_i^\top (Y + Y^\top) x_j / 2`. The norm is the same in every
    orthonormal basis of the channels; in that of the principal axes the dual is far better
    scaled, and axes along which there is no signal are left out.

    Examples
    --------
    >>> from glnn.graph.pairs import spread
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> FrobeniusSmoothness(1.0, spread(torch.tensor([[0.0], [2.0]]))).value(pair)
    tensor(16.)
    """

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        x = self.signal.own.dense()
        return (x.T @ (x - adj @ x)).square().sum()

    @computed_once
    def basis(self) -> Tensor:
        """Return the principal axes of the signals, those without signal left out."""
        x = self.signal.own.dense()
        gram = self.signal.summed(x.T @ x)
        sizes, axes = torch.linalg.eigh(gram)
        kept: Tensor = axes[:, sizes > _RANK * sizes[-1].clamp_min(1e-300)].contiguous()
        return self.signal.partition.peers.broadcast(kept)

    @computed_once
    def turned(self) -> SpreadRows:
        """Return the signals along their principal axes."""
        return self.signal.with_own(DenseRows(self.signal.own.times(self.basis)))

    @computed_once
    def target(self) -> Tensor:
        r"""Return the energies :math:`X^\top X`, flat."""
        x = self.turned.own.dense()
        return self.signal.summed((x.T @ x).reshape(-1))

    def image(self, adj: Adjacency) -> Tensor:
        r"""Return :math:`X^\top A X`, flat."""
        x = self.turned.own.dense()
        return (x.T @ (adj @ x)).reshape(-1)

    def adjoint(self, y: Tensor) -> Implicit:
        """Return the similarity under the metric ``Y``."""
        left = DenseRows(self.turned.own.times(_symmetric(y)))
        return Implicit(factors=(Factor(self.turned.with_own(left), self.turned),))

    def on(self, pairs: Pairs) -> PairMap:
        """Return the map through products with the signals."""
        return FrobeniusMap(pairs, self.turned)

    def new_row(self, dual: Tensor | None) -> RowShare:
        """Return the similarity that the dual point implies: the norm is linearised there."""
        assert dual is not None  # it is a penalty
        width = self.basis.shape[1]
        return RowShare(metrics=(-self.basis @ dual.view(width, width) @ self.basis.T,))


class FrobeniusMap(PairMap):
    r""":math:`X^\top A X` of graphs on some pairs; the blocks of other processes come by."""

    def __init__(self, pairs: Pairs, signal: SpreadRows) -> None:
        self.pairs, self._signal = pairs, signal
        self._width = signal.own.n_columns
        self._patterns: list[CsrPattern] = []
        for rank, (mine, far, near) in enumerate(pairs.meetings):
            bounds = pairs.partition.bounds
            shape = (len(signal.own), int(bounds[rank + 1] - bounds[rank]))
            place = torch.arange(len(pairs), device=near.device) if mine is None else mine
            self._patterns.append(CsrPattern.build(*shape, near, far, place))
        self._ends = self._gathered() if self._width**2 <= WIDEST else None

    def _gathered(self) -> tuple[Tensor, Tensor]:
        """Return the signals at both ends of every pair."""
        own = self._signal.own.dense()
        near, far = (own.new_empty(len(self.pairs), self._width) for _ in range(2))
        for rank, block in self._signal.blocks():
            mine, there, here = self.pairs.meetings[rank]
            place = slice(None) if mine is None else mine
            near[place], far[place] = own.index_select(0, here), block.take(there).dense()
        return near, far

    def _sums(self, values: Tensor, signal: SpreadRows) -> Tensor:
        r"""Return the symmetric :math:`\sum_p c_p a_p x_i x_j^\top` over this process's pairs."""
        halves = values * self.pairs.counts / 2
        own = signal.own.dense()
        total = torch.zeros_like(own)
        for rank, block in signal.blocks():
            pattern = self._patterns[rank]
            matrix = CsrMatrix(pattern, halves.index_select(0, pattern.source))
            total += product(matrix, block.dense())
        half = own.T @ total
        return (half + half.T).reshape(-1)

    def apply(self, values: Tensor) -> Tensor:  # noqa: D102
        return self._sums(values, self._signal)

    def adjoint(self, y: Tensor) -> Tensor:  # noqa: D102
        left = DenseRows(self._signal.own.times(_symmetric(y)))
        return Factor(self._signal.with_own(left), self._signal).on_pairs(self.pairs)

    def squares(self, active: Tensor) -> Tensor:
        r"""Return :math:`\sum_{ij} x_{ia}^2 x_{jb}^2` over the pairs."""
        return self._sums(active, self._signal.with_own(self._signal.own.squared()))

    def columns(self, place: slice) -> Tensor | None:
        r"""Return :math:`(x_{ia} x_{jb} + x_{ja} x_{ib})/2` for some pairs."""
        if self._ends is None:
            return None
        near, far = self._ends[0][place], self._ends[1][place]
        outer = near[:, :, None] * far[:, None, :]
        return ((outer + outer.transpose(1, 2)) / 2).reshape(len(near), self._width**2)


def _symmetric(y: Tensor) -> Tensor:
    r"""Return :math:`(Y + Y^\top)/2`: of the rest, the product with a symmetric graph is zero."""
    width = math.isqrt(len(y))
    square = y.view(width, width)
    return (square + square.T) / 2
