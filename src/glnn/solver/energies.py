r"""The two quadratic readings of the graph Laplacian regulariser, as penalties."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from glnn.solver.implicit import Factor, Implicit, Matrix, pair_dots
from glnn.solver.pairs import Pairs
from glnn.solver.penalties import OnPairs, Penalty

_KEPT_BYTES = 2**28  # products s_ic·s_jc of a working set are kept up to this size


@dataclass(frozen=True, eq=False)
class ChannelEnergy(Penalty):
    r""":math:`w \sum_c (s_c^\top (I - A) s_c)^2`: :math:`T_c(A) = s_c^\top A s_c`.

    The adjoint is :math:`T^*(y)_{ij} = \sum_c y_c s_{ic} s_{jc}`.
    """

    signal: Matrix
    weight: float
    name: str = "channel"

    @cached_property
    def target(self) -> np.ndarray:
        r"""The energies :math:`s_c^\top s_c`."""
        return _column_sums(self.signal, self.signal)

    @cached_property
    def longest(self) -> float:
        """The largest squared length of a signal row."""
        return _longest(self.signal)

    def of_matrix(self, adjacency: sp.csr_matrix) -> np.ndarray:
        """Return the energy of every channel over the graph."""
        return _column_sums(self.signal, adjacency @ self.signal)

    def adjoint(self, y: np.ndarray) -> Implicit:
        """Return the similarity with weighted channels."""
        weighted = self.signal @ sp.diags(y) if sp.issparse(self.signal) else self.signal * y
        left = sp.csr_matrix(weighted) if sp.issparse(weighted) else weighted
        return Implicit(np.zeros(self.signal.shape[0]), factors=(Factor(left, self.signal),))

    def metric(self, y: np.ndarray) -> np.ndarray:
        r"""Return the weights :math:`q` of :math:`T^*(y)_{ij} = s_i^\top \mathrm{diag}(q) s_j`."""
        return y

    def largest_adjoint(self, y: np.ndarray) -> float:
        """Return the largest channel weight times the longest row."""
        return float(np.abs(y).max() * self.longest)

    def on(self, pairs: Pairs) -> OnPairs:
        """Return the map through kept products where they fit."""
        stored = (
            self.signal.nnz / self.signal.shape[0]
            if sp.issparse(self.signal)
            else (self.signal.shape[1])
        )
        if len(pairs) * stored * 8 > _KEPT_BYTES:
            return OnPairs(self, pairs)
        rows = self.signal[pairs.i]
        products = (
            sp.csr_matrix(rows.multiply(self.signal[pairs.j]))
            if sp.issparse(rows)
            else rows * self.signal[pairs.j]
        )
        return ChannelsOnPairs(self, pairs, products)

    def squares(self, pairs: Pairs) -> np.ndarray:
        r"""Return :math:`\sum_{ij} s_{ic}^2 s_{jc}^2` over the pairs."""
        square = self.signal.multiply(self.signal) if sp.issparse(self.signal) else self.signal**2
        square = sp.csr_matrix(square) if sp.issparse(square) else square
        return _column_sums(square, pairs.to_csr(np.ones(len(pairs))) @ square)


class ChannelsOnPairs(OnPairs):
    """The channel energies through the products :math:`s_{ic} s_{jc}` of every pair."""

    def __init__(self, penalty: Penalty, pairs: Pairs, products: Matrix) -> None:
        super().__init__(penalty, pairs)
        self.products = products
        self._transposed = products.T.tocsr() if sp.issparse(products) else products.T

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Return the energies."""
        return np.asarray(self._transposed @ (values * self.pairs.counts))

    def adjoint(self, y: np.ndarray) -> np.ndarray:
        """Return the weighted similarities."""
        return np.asarray(self.products @ y)

    def restrict(self, mask: np.ndarray) -> OnPairs:
        """Keep the products of some pairs."""
        return ChannelsOnPairs(self.penalty, self.pairs.select(mask), self.products[mask])


@dataclass(frozen=True, eq=False)
class FrobeniusEnergy(Penalty):
    r""":math:`w\,\|S^\top (I - A) S\|_F^2`: :math:`T(A) = S^\top A S`, flat, row by row.

    The adjoint is :math:`T^*(Y)_{ij} = s_i^\top Y s_j` for a symmetric :math:`Y`.

    Parameters
    ----------
    signal
        Signal rows in whichever orthonormal basis: the norm does not depend on it.
    basis
        The columns of that basis; ``None`` for the signals' own.
    """

    signal: Matrix
    weight: float
    name: str = "frobenius"
    basis: np.ndarray | None = None

    @classmethod
    def of(cls, signal: Matrix, weight: float) -> "FrobeniusEnergy":
        """Turn dense signals to their principal axes, where the dual is far better scaled."""
        if sp.issparse(signal):
            return cls(signal, weight)
        _, basis = np.linalg.eigh(signal.T @ signal)
        return cls(signal @ basis, weight, basis=basis)

    @cached_property
    def target(self) -> np.ndarray:
        r"""The energies :math:`S^\top S`."""
        return _dense_product(self.signal, self.signal)

    @cached_property
    def longest(self) -> float:
        """The largest squared length of a signal row."""
        return _longest(self.signal)

    def of_matrix(self, adjacency: sp.csr_matrix) -> np.ndarray:
        r"""Return :math:`S^\top A S`."""
        return _dense_product(self.signal, adjacency @ self.signal)

    def adjoint(self, y: np.ndarray) -> Implicit:
        """Return the similarity under the metric ``Y``."""
        width = self.signal.shape[1]
        left = np.asarray(self.signal @ y.reshape(width, width))
        return Implicit(np.zeros(self.signal.shape[0]), factors=(Factor(left, self.signal),))

    def metric(self, y: np.ndarray) -> np.ndarray:
        r"""Return the matrix :math:`Y` of :math:`T^*(Y)_{ij} = s_i^\top Y s_j`."""
        width = self.signal.shape[1]
        matrix = y.reshape(width, width)
        return matrix if self.basis is None else self.basis @ matrix @ self.basis.T

    def largest_adjoint(self, y: np.ndarray) -> float:
        """Return the norm of ``Y`` times the longest row."""
        return float(np.linalg.norm(y) * self.longest)

    def squares(self, pairs: Pairs) -> np.ndarray:
        r"""Return :math:`\sum_{ij} s_{ia}^2 s_{jb}^2` over the pairs."""
        square = self.signal.multiply(self.signal) if sp.issparse(self.signal) else self.signal**2
        square = sp.csr_matrix(square) if sp.issparse(square) else square
        return _dense_product(square, pairs.to_csr(np.ones(len(pairs))) @ square)


def _column_sums(first: Matrix, second: Matrix) -> np.ndarray:
    r"""Return :math:`\sum_i x_{ic} z_{ic}` for every column."""
    if sp.issparse(first):
        return np.asarray(first.multiply(second).sum(0), dtype=np.float64).ravel()
    return np.asarray(np.einsum("ic,ic->c", first, second))


def _dense_product(first: Matrix, second: Matrix) -> np.ndarray:
    r"""Return :math:`X^\top Z` as a flat dense vector."""
    product = first.T @ second
    return np.asarray(product.toarray() if sp.issparse(product) else product).ravel()


def _longest(signal: Matrix) -> float:
    rows = np.arange(signal.shape[0])
    return float(pair_dots(signal, signal, rows, rows).max())
