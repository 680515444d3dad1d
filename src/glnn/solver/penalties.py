r"""The quadratic penalties :math:`w\,\|T(A) - \tau\|^2`, each a linear map with its adjoint.

Inner products run over the full symmetric matrix: :math:`\langle T(A), y\rangle =
\sum_{ij} a_{ij}\,T^*(y)_{ij}`, so an off-diagonal pair counts twice.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from glnn.solver.implicit import Implicit
from glnn.solver.pairs import Pairs


class Penalty(ABC):
    """One penalty: weight, target and map; ``y`` and ``T(A)`` are flat vectors."""

    name: str
    weight: float

    @property
    @abstractmethod
    def target(self) -> np.ndarray:
        r"""The vector :math:`\tau`."""

    @abstractmethod
    def of_matrix(self, adjacency: sp.csr_matrix) -> np.ndarray:
        """Return :math:`T(A)` of a sparse matrix, without a list of pairs."""

    @abstractmethod
    def adjoint(self, y: np.ndarray) -> Implicit:
        """Return :math:`T^*(y)` as a matrix that is never formed."""

    @abstractmethod
    def largest_adjoint(self, y: np.ndarray) -> float:
        r"""Return a bound on :math:`\max_{ij} |T^*(y)_{ij}|`."""

    def on(self, pairs: Pairs) -> "OnPairs":
        """Return the map for graphs that live on these pairs."""
        return OnPairs(self, pairs)

    def squares(self, pairs: Pairs) -> np.ndarray:
        r"""Return the diagonal of :math:`T T^*` over the pairs, or an estimate of it."""
        return np.zeros_like(self.target)


class OnPairs:
    """A penalty's map on one list of pairs; the plain route through a sparse matrix."""

    def __init__(self, penalty: Penalty, pairs: Pairs) -> None:
        self.penalty, self.pairs = penalty, pairs

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Return :math:`T(A)` of the graph with these values."""
        pattern, source = self._pattern
        parts = (values[source], pattern.indices, pattern.indptr)
        return self.penalty.of_matrix(sp.csr_matrix(parts, shape=pattern.shape))

    @cached_property
    def _pattern(self) -> tuple[sp.csr_matrix, np.ndarray]:
        """The full matrix, and which pair each of its entries belongs to."""
        pattern = self.pairs.to_csr(np.arange(1.0, len(self.pairs) + 1.0))
        return pattern, pattern.data.astype(np.int64) - 1

    def adjoint(self, y: np.ndarray) -> np.ndarray:
        """Return :math:`T^*(y)` on the pairs."""
        return self.penalty.adjoint(y).on_pairs(self.pairs)

    def squares(self) -> np.ndarray:
        """Return the diagonal of :math:`T T^*`."""
        return self.penalty.squares(self.pairs)

    def restrict(self, mask: np.ndarray) -> "OnPairs":
        """Return the map on some of the pairs."""
        return self.penalty.on(self.pairs.select(mask))


@dataclass(frozen=True, eq=False)
class RowSums(Penalty):
    r""":math:`w\,\|A1 - 1\|^2`: :math:`T(A) = A1`, :math:`T^*(y)_{ij} = (y_i + y_j)/2`."""

    n_nodes: int
    weight: float
    name: str = "row_sums"

    @cached_property
    def target(self) -> np.ndarray:
        """Ones."""
        return np.ones(self.n_nodes)

    def of_matrix(self, adjacency: sp.csr_matrix) -> np.ndarray:
        """Return the row sums."""
        return np.asarray(adjacency.sum(1)).ravel()

    def adjoint(self, y: np.ndarray) -> Implicit:
        """Return the mean of the two ends."""
        return Implicit(y / 2)

    def largest_adjoint(self, y: np.ndarray) -> float:
        """Return the largest entry."""
        return float(np.abs(y).max())

    def on(self, pairs: Pairs) -> OnPairs:
        """Return the map by counting."""
        return _RowSumsOnPairs(self, pairs)

    def squares(self, pairs: Pairs) -> np.ndarray:
        """Return half the number of neighbours, a loop counting twice."""
        half = np.full(len(pairs), 0.5)
        return np.bincount(pairs.i, half, self.n_nodes) + np.bincount(pairs.j, half, self.n_nodes)


class _RowSumsOnPairs(OnPairs):
    def apply(self, values: np.ndarray) -> np.ndarray:
        pairs = self.pairs
        below = np.where(pairs.i == pairs.j, 0.0, values)
        return np.bincount(pairs.i, values, pairs.n_nodes) + np.bincount(
            pairs.j, below, pairs.n_nodes
        )

    def adjoint(self, y: np.ndarray) -> np.ndarray:
        half = y / 2
        return np.asarray(half[self.pairs.i] + half[self.pairs.j])


@dataclass(frozen=True, eq=False)
class Loops(Penalty):
    r""":math:`w\,(\operatorname{tr} A)^2`: :math:`T(A)` is the trace, :math:`T^*(y) = yI`."""

    n_nodes: int
    weight: float
    name: str = "loops"

    @cached_property
    def target(self) -> np.ndarray:
        """Zero."""
        return np.zeros(1)

    def of_matrix(self, adjacency: sp.csr_matrix) -> np.ndarray:
        """Return the trace."""
        return np.array([adjacency.diagonal().sum()])

    def adjoint(self, y: np.ndarray) -> Implicit:
        """Return y times the identity."""
        return Implicit(np.zeros(self.n_nodes), loop=float(y[0]))

    def largest_adjoint(self, y: np.ndarray) -> float:
        """Return the absolute value."""
        return float(np.abs(y[0]))

    def on(self, pairs: Pairs) -> OnPairs:
        """Return the map on the diagonal pairs."""
        return _LoopsOnPairs(self, pairs)

    def squares(self, pairs: Pairs) -> np.ndarray:
        """Return the number of loops."""
        return np.array([float(np.count_nonzero(pairs.i == pairs.j))])


class _LoopsOnPairs(OnPairs):
    @cached_property
    def _places(self) -> np.ndarray:
        return np.flatnonzero(self.pairs.i == self.pairs.j)

    def apply(self, values: np.ndarray) -> np.ndarray:
        return np.array([values[self._places].sum()])

    def adjoint(self, y: np.ndarray) -> np.ndarray:
        result = np.zeros(len(self.pairs))
        result[self._places] = y[0]
        return result
