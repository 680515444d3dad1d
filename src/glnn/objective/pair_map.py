r"""A penalty's map :math:`T` and its adjoint for graphs that live on one list of pairs.

With :math:`c` the counts of the pairs (2, or 1 on the diagonal) and :math:`K` the matrix of the
adjoint on the pairs, :math:`T^*(y) = K y` and :math:`T(a) = K^\top (c \circ a)`. Each process has
some of the pairs: what it returns of :math:`T(a)` is its share of a sum.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from glnn.graph.pairs import Pairs
from glnn.graph.sparse import SparseAdjacency

_PROBES = 8


class PairMap(ABC):
    """The map on this process's pairs."""

    pairs: Pairs

    @abstractmethod
    def apply(self, values: Tensor) -> Tensor:
        """Return this process's share of :math:`T(a)`."""

    @abstractmethod
    def adjoint(self, y: Tensor) -> Tensor:
        """Return :math:`T^*(y)` on the pairs."""

    def add_adjoint(self, total: Tensor, y: Tensor) -> None:
        """Add :math:`T^*(y)` to numbers on the pairs; a map that is zero on most adds the rest."""
        total += self.adjoint(y)

    @abstractmethod
    def squares(self, active: Tensor) -> Tensor:
        r"""Return the share of the diagonal of :math:`T T^*`; pairs count as ``active`` says.

        An estimate is allowed: it is for scaling.
        """

    def columns(self, place: slice) -> Tensor | None:
        """Return the rows of :math:`K` of some pairs; ``None`` where :math:`K` is too wide.

        A map that gives them is solved for together with those that have a :meth:`bound`.
        """
        return None

    def bound(self, active: Tensor) -> Tensor | None:
        r"""Return the share of a diagonal matrix that is at least :math:`T T^*`, or ``None``."""
        return None

    def coupled(self, active: Tensor, columns: Tensor, place: slice) -> Tensor:
        """Return the share of :math:`T` of the active pairs times columns of another map."""
        raise NotImplementedError("a map with a bound must give its coupling")


class ColumnsMap(PairMap):
    """A map with few dual numbers: the matrix :math:`K` is kept, dense."""

    def __init__(self, pairs: Pairs, matrix: Tensor) -> None:
        self.pairs, self.matrix = pairs, matrix

    def apply(self, values: Tensor) -> Tensor:  # noqa: D102
        return (self.pairs.counts * values) @ self.matrix

    def adjoint(self, y: Tensor) -> Tensor:  # noqa: D102
        return self.matrix @ y

    def squares(self, active: Tensor) -> Tensor:  # noqa: D102
        return (self.pairs.counts * active) @ self.matrix.square()

    def columns(self, place: slice) -> Tensor | None:  # noqa: D102
        return self.matrix[place]


class ImageMap(PairMap):
    """A map by its own definition on graphs: nothing is kept."""

    def __init__(
        self,
        pairs: Pairs,
        image: Callable[[SparseAdjacency], Tensor],
        adjoint: Callable[[Tensor], Tensor],
    ) -> None:
        self.pairs, self._image, self._adjoint = pairs, image, adjoint
        self._graph = pairs.adjacency(torch.zeros_like(pairs.counts))

    def apply(self, values: Tensor) -> Tensor:  # noqa: D102
        return self._image(self._graph.with_values(values))

    def adjoint(self, y: Tensor) -> Tensor:  # noqa: D102
        return self._adjoint(y)

    def squares(self, active: Tensor) -> Tensor:
        """Estimate the diagonal by images of random signs, whose squares have it as their mean."""
        draw = torch.Generator().manual_seed(0)
        sizes = (active / self.pairs.counts).sqrt()
        signs = 2 * torch.randint(2, (_PROBES, len(active)), generator=draw).to(sizes) - 1
        return torch.stack([self.apply(sizes * row).square() for row in signs]).mean(0)
