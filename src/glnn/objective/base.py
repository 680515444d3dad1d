r"""What every term of the objective says of itself: its value, and how it enters the solver.

The solver minimises, over symmetric :math:`A \ge 0`,

.. math:: \gamma\|A\|^2 - \langle B, A\rangle + \sum_m w_m \|T_m(A) - \tau_m\|^2 ,

which differs from the sum of the terms by a constant. A term adds to the curvature
:math:`\gamma`, to the matrix :math:`B`, or is one of the penalties. Inner products run over the
full symmetric matrix: :math:`\langle T(A), y\rangle = \sum_{ij} a_{ij}\,T^*(y)_{ij}`.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.base import Adjacency
from glnn.graph.implicit import Implicit
from glnn.graph.pairs import Pairs
from glnn.objective.new_row import RowShare
from glnn.objective.pair_map import ColumnsMap, ImageMap, PairMap

_FEW = 32  # dual numbers up to which the adjoint is kept as a dense matrix


class Term(ABC):
    """One term of the objective, to be weighted.

    A term overrides :attr:`curvature`, :meth:`linear` or, as a :class:`QuadraticTerm`, gives its
    map, and says in :meth:`new_row` what it adds to the links of a new node; an objective refuses
    one that leaves a part out. Nothing else knows a term.
    """

    name: str
    weight: float | int
    is_constant: ClassVar[bool] = False
    """Whether the term is the same for every symmetric graph, so that the solver need not know."""
    sets_degree: ClassVar[bool] = False
    """Whether all that the term says is that its weight is taken from every entry of B: then a
    wanted number of neighbours may set this weight."""

    @abstractmethod
    def value(self, adj: Adjacency) -> Float[Tensor, ""]:
        """Return the term of a graph, without its weight."""

    @property
    def curvature(self) -> float | int:
        r"""What the term adds to :math:`\gamma`."""
        return 0.0

    def linear(self) -> Implicit | None:
        """Return what the term adds to :math:`B`, its weight included; ``None``: nothing."""
        return None

    def penalty(self) -> "QuadraticTerm | None":
        """Return the term if it is a quadratic penalty."""
        return None

    @abstractmethod
    def new_row(self, dual: Tensor | None) -> RowShare:
        r"""Return the term's share in the one-row problem of a new node; ``RowShare()``: nothing.

        ``dual`` is :math:`2 w (T(A) - \tau)` of the learned graph where the term is a penalty.
        """


class QuadraticTerm(Term):
    r"""A penalty :math:`w\,\|T(A) - \tau\|^2` with a linear map :math:`T`; vectors are flat."""

    @property
    @abstractmethod
    def target(self) -> Tensor:
        r"""The vector :math:`\tau`, the same in every process."""

    @abstractmethod
    def image(self, adj: Adjacency) -> Tensor:
        """Return :math:`T(A)`."""

    @abstractmethod
    def adjoint(self, y: Tensor) -> Implicit:
        """Return :math:`T^*(y)` as a matrix that is never formed."""

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:
        r"""Return :math:`\|T(A) - \tau\|^2`."""
        return (self.image(adj) - self.target).square().sum()

    def penalty(self) -> "QuadraticTerm | None":
        """Return itself."""
        return self

    def on(self, pairs: Pairs) -> PairMap:
        """Return the map for graphs that live on these pairs."""
        if len(self.target) > _FEW:
            return ImageMap(pairs, self.image, lambda y: self.adjoint(y).on_pairs(pairs))
        units = torch.eye(len(self.target), dtype=torch.float64, device=pairs.i.device)
        columns = [self.adjoint(unit).on_pairs(pairs) for unit in units]
        return ColumnsMap(pairs, torch.stack(columns, 1))
