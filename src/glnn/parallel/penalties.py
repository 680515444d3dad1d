"""Penalties of a graph whose pairs are spread over processes."""

import numpy as np
import scipy.sparse as sp

from glnn.peers import Peers
from glnn.solver.implicit import Implicit
from glnn.solver.pairs import Pairs
from glnn.solver.penalties import OnPairs, Penalty


class Shared(Penalty):
    r"""A penalty whose map is the sum of what each process's pairs give.

    :math:`T(A)` is linear, so :math:`T(A) = \sum_p T(A_p)`; the adjoint at a pair needs nothing of
    other pairs.
    """

    def __init__(self, penalty: Penalty, peers: Peers) -> None:
        self.penalty, self.peers = penalty, peers
        self.name, self.weight = penalty.name, penalty.weight

    @property
    def target(self) -> np.ndarray:
        """The same in every process."""
        return self.penalty.target

    def of_matrix(self, adjacency: sp.csr_matrix) -> np.ndarray:
        """Return the sum over processes, each giving its pairs as a symmetric matrix."""
        return self.peers.all_reduce(self.penalty.of_matrix(adjacency))

    def adjoint(self, y: np.ndarray) -> Implicit:
        """Return the penalty's own."""
        return self.penalty.adjoint(y)

    def largest_adjoint(self, y: np.ndarray) -> float:
        """Return the penalty's own."""
        return self.penalty.largest_adjoint(y)

    def on(self, pairs: Pairs) -> OnPairs:
        """Return the map for this process's pairs, its answers summed over processes."""
        return _SharedOnPairs(self, self.penalty.on(pairs))


class _SharedOnPairs(OnPairs):
    def __init__(self, penalty: Shared, own: OnPairs) -> None:
        super().__init__(penalty, own.pairs)
        self.peers, self.own = penalty.peers, own

    def apply(self, values: np.ndarray) -> np.ndarray:
        return self.peers.all_reduce(_real(self.own.apply(values)))

    def adjoint(self, y: np.ndarray) -> np.ndarray:
        return self.own.adjoint(y)

    def squares(self) -> np.ndarray:
        return self.peers.all_reduce(_real(self.own.squares()))


def _real(part: np.ndarray) -> np.ndarray:
    """Return the part in double precision: counts over no pairs at all come as integers."""
    return part.astype(np.float64, copy=False)
