"""The graph Laplacian regulariser in three readings: trace, channel by channel, Frobenius norm."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.pairs import Adjacency, ImplicitMatrix, LowRankPart, Pairs, ShardedRows
from glnn.graph.rows import CsrMatrix, DenseRows, RowMatrix
from glnn.objective.base import PairMap, QuadraticTerm, RowCoefficients, Term


@dataclass(frozen=True, eq=False)
class SmoothnessTerm(Term):
    """The smoothness of signals over a graph; base class of the readings."""

    weight: float | int
    signal: ShardedRows
    name: str = "smoothness"


class TraceSmoothness(SmoothnessTerm):
    r"""Graph Laplacian regulariser :math:`\operatorname{tr}(X^\top (I - A) X)`.

    Paper: the exponent of the likelihood (eq:final_likelihood_func), summed over channels.

    Examples
    --------
    >>> from glnn.graph.pairs import as_sharded_rows
    >>> pair = DenseAdjacency(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> TraceSmoothness(1.0, as_sharded_rows(torch.tensor([[0.0], [2.0]]))).value(pair)
    tensor(4.)
    """

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        x = self.signal.local.to_dense()
        return (x * (x - adj @ x)).sum()

    def linear(self) -> ImplicitMatrix:
        r"""Return :math:`\lambda_0\, x_i \cdot x_j`."""
        return ImplicitMatrix(factors=(LowRankPart(self.signal, self.signal, self.weight),))

    def new_row(self, dual: Tensor) -> RowCoefficients:
        """Return the similarity to every node as coefficients of the links."""
        return RowCoefficients(metrics=(torch.tensor(float(self.weight), dtype=torch.float64),))


MAX_DENSE_COLUMNS = 512  # columns up to which a dense matrix on the pairs is faster


class ChannelSmoothness(SmoothnessTerm, QuadraticTerm):
    r"""Squared regulariser of each channel, :math:`\sum_c (x_c^\top (I - A) x_c)^2`.

    Paper: the loss :math:`\mathcal{L}_{GLR}`, whose ``x`` is one signal, summed over channels.
    As a penalty, :math:`T_c(A) = x_c^\top A x_c`, :math:`\tau_c = x_c^\top x_c` and
    :math:`T^*(y)_{ij} = \sum_c y_c x_{ic} x_{jc}`.
    """

    @cached_property
    def target(self) -> Tensor:
        r"""Return the energies :math:`x_c^\top x_c`."""
        own = self.signal.local
        ones = torch.ones(len(own), dtype=own.dtype, device=own.device)
        return self.signal.layout.sum(own.square().column_sums(ones))

    def image(self, adj: Adjacency) -> Tensor:
        """Return the energy of every channel over the graph."""
        x = self.signal.local.to_dense()
        return (x * (adj @ x)).sum(0)

    def adjoint(self, y: Tensor) -> ImplicitMatrix:
        """Return the similarity of rows with weighted channels."""
        weighted = self.signal.with_local(self.signal.local.scale_columns(y))
        return ImplicitMatrix(factors=(LowRankPart(weighted, self.signal),))

    def pair_map(self, pairs: Pairs) -> PairMap:
        """Return the map by the products of the signals of each pair."""
        return ChannelMap(self, pairs)

    def new_row(self, dual: Tensor) -> RowCoefficients:
        """Return the similarity of the energies, linearised at the dual point."""
        return RowCoefficients(metrics=(-dual,))


class ChannelMap(PairMap):
    r"""The channel energies, by the products :math:`x_{ic} x_{jc}` of each pair."""

    def __init__(self, term: ChannelSmoothness, pairs: Pairs) -> None:
        super().__init__(term, pairs)
        self._products = _pair_products(pairs, term.signal)

    def apply(self, values: Tensor) -> Tensor:  # noqa: D102
        return self._products.column_sums(values * self.pairs.counts)

    def adjoint(self, y: Tensor) -> Tensor:  # noqa: D102
        return self._products.matmul(y[:, None])[:, 0]

    def gram_diagonal(self, active: Tensor) -> Tensor:  # noqa: D102
        return self._products.square().column_sums(active * self.pairs.counts)

    def matrix_rows(self, place: slice) -> Tensor | None:  # noqa: D102
        wide = self._products.n_columns > MAX_DENSE_COLUMNS
        return None if wide else self._products.block(place).to_dense()


def _pair_products(pairs: Pairs, signal: ShardedRows) -> RowMatrix:
    """Return the products of the signals of each pair; remote rows arrive by ring exchange."""
    parts, places = [], []
    for mine, near, far, block in pairs.visit(signal):
        parts.append(signal.local.pair_products(block, near, far))
        if isinstance(mine, slice):
            return parts[0]
        places.append(mine)
    whole = parts[0].concatenate(parts[1:])
    return whole.take(torch.cat(places).argsort())


_RANK_TOLERANCE = 1e-14  # eigenvalues of the signals below this share of the largest are rounding


class FrobeniusSmoothness(SmoothnessTerm, QuadraticTerm):
    r"""Squared norm of the whole product, :math:`\|X^\top (I - A) X\|_F^2`.

    Paper: the loss :math:`\mathcal{L}_{GLR}` read literally for a matrix of signals. As a
    penalty, :math:`T(A) = X^\top A X`, flat, :math:`\tau = X^\top X`, and
    :math:`T^*(Y)_{ij} = x_i^\top (Y + Y^\top) x_j / 2`. The norm is the same in every
    orthonormal basis of the channels. The basis of principal axes is used, because the dual is
    far better scaled there and axes without signal can be dropped.
    """

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:  # noqa: D102
        x = self.signal.local.to_dense()
        return (x.T @ (x - adj @ x)).square().sum()

    @cached_property
    def basis(self) -> Tensor:
        """Return the principal axes of the signals that have any signal."""
        x = self.signal.local.to_dense()
        gram = self.signal.layout.sum(x.T @ x)
        sizes, axes = torch.linalg.eigh(gram)
        kept: Tensor = axes.T[sizes > _RANK_TOLERANCE * sizes[-1].clamp_min(1e-300)]
        return self.signal.layout.agree(kept.contiguous()).T.contiguous()

    @cached_property
    def rotated_signal(self) -> ShardedRows:
        """Return the signals in the basis of their principal axes."""
        return self.signal.with_local(DenseRows(self.signal.local.matmul(self.basis)))

    @cached_property
    def target(self) -> Tensor:
        r"""Return the energies :math:`X^\top X`, flat."""
        x = self.rotated_signal.local.to_dense()
        return self.signal.layout.sum((x.T @ x).reshape(-1))

    def image(self, adj: Adjacency) -> Tensor:
        r"""Return :math:`X^\top A X`, flat."""
        x = self.rotated_signal.local.to_dense()
        return (x.T @ (adj @ x)).reshape(-1)

    def adjoint(self, y: Tensor) -> ImplicitMatrix:
        """Return the similarity of rows under the symmetric part of the metric ``Y``."""
        width, signal = self.basis.shape[1], self.rotated_signal
        square = y.view(width, width)
        left = signal.with_local(DenseRows(signal.local.matmul((square + square.T) / 2)))
        return ImplicitMatrix(factors=(LowRankPart(left, signal),))

    def pair_map(self, pairs: Pairs) -> PairMap:
        """Return the map by products with the signals."""
        return FrobeniusMap(self, pairs)

    def new_row(self, dual: Tensor) -> RowCoefficients:
        """Return the similarity of the norm, linearised at the dual point."""
        width = self.basis.shape[1]
        return RowCoefficients(metrics=(-self.basis @ dual.view(width, width) @ self.basis.T,))


class FrobeniusMap(PairMap):
    r"""The map :math:`X^\top A X`, by products with the signals; :math:`K` is stored if narrow."""

    def __init__(self, term: FrobeniusSmoothness, pairs: Pairs) -> None:
        super().__init__(term, pairs)
        self._signal, self._width = term.rotated_signal, term.basis.shape[1]
        self._patterns: list[CsrMatrix] = []  # of the pairs of each block of signals
        self._ends = self._gather_ends() if self._width**2 <= MAX_DENSE_COLUMNS else None

    def _gather_ends(self) -> tuple[Tensor, Tensor]:
        """Return the signals at both ends of each pair."""
        own = self._signal.local.to_dense()
        first, second = (own.new_empty(len(self.pairs), self._width) for _ in range(2))
        for mine, near, far, block in self.pairs.visit(self._signal):
            first[mine], second[mine] = own.index_select(0, near), block.take(far).to_dense()
        return first, second

    def _sums(self, values: Tensor, signal: ShardedRows) -> Tensor:
        r"""Return the symmetric :math:`\sum_p c_p a_p x_i x_j^\top` over this process's pairs."""
        halves = values * self.pairs.counts / 2
        own = signal.local.to_dense()
        total = torch.zeros_like(own)
        for number, (mine, near, far, block) in enumerate(self.pairs.visit(signal)):
            if number == len(self._patterns):
                place = torch.arange(len(self.pairs), device=near.device)[mine]
                shape = (len(own), len(block))
                self._patterns.append(CsrMatrix.from_entries(shape, near, far, place))
            pattern = self._patterns[number]
            matrix = pattern.with_values(halves.index_select(0, pattern.values))
            total += matrix.spmm(block.to_dense())
        half = own.T @ total
        return (half + half.T).reshape(-1)

    def apply(self, values: Tensor) -> Tensor:  # noqa: D102
        return self._sums(values, self._signal)

    def gram_diagonal(self, active: Tensor) -> Tensor:
        r"""Return :math:`\sum_{ij} x_{ia}^2 x_{jb}^2` over the pairs."""
        return self._sums(active, self._signal.with_local(self._signal.local.square()))

    def matrix_rows(self, place: slice) -> Tensor | None:
        r"""Return :math:`(x_{ia} x_{jb} + x_{ja} x_{ib})/2` for some pairs."""
        if self._ends is None:
            return None
        near, far = self._ends[0][place], self._ends[1][place]
        outer = near[:, :, None] * far[:, None, :]
        return ((outer + outer.transpose(1, 2)) / 2).reshape(len(near), self._width**2)
