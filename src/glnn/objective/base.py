r"""Base classes of the terms of the objective: their value, and how they enter the solver.

The solver minimises, over symmetric :math:`A \ge 0`,

.. math:: \gamma\|A\|^2 - \langle B, A\rangle + \sum_m w_m \|T_m(A) - \tau_m\|^2 ,

which differs from the sum of the terms by a constant. A term adds to the curvature
:math:`\gamma`, to the matrix :math:`B`, or is one of the penalties. Inner products run over the
full symmetric matrix: :math:`\langle T(A), y\rangle = \sum_{ij} a_{ij}\,T^*(y)_{ij}`. On a list of
pairs, :math:`T^*` is a matrix :math:`K` with one row for each pair (:class:`PairMap`).
"""

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.pairs import Adjacency, ImplicitMatrix, Pairs, SparseAdjacency, add_fields

# Linear maps on pairs

_N_PROBES = 8  # random vectors that estimate a diagonal


class PairMap:
    """The map :math:`T` of a penalty and its adjoint, for graphs on the pairs of this process.

    It works for every penalty; those of the library derive faster ones. Results with one entry for
    each dual variable are this process's part of a sum over processes.
    """

    def __init__(self, term: "QuadraticTerm", pairs: Pairs) -> None:
        self.term, self.pairs = term, pairs

    def apply(self, values: Tensor) -> Tensor:
        """Return this process's part of :math:`T(a)`."""
        return self.term.image(SparseAdjacency(self.pairs, values))

    def adjoint(self, y: Tensor) -> Tensor:
        """Return :math:`T^*(y)` on the pairs."""
        return self.term.adjoint(y).on_pairs(self.pairs)

    def add_adjoint(self, total: Tensor, y: Tensor) -> None:
        """Add :math:`T^*(y)` to ``total``; a map that is zero on most pairs skips them."""
        total += self.adjoint(y)

    def gram_diagonal(self, active: Tensor) -> Tensor:
        r"""Return the diagonal of :math:`T T^*`, with pairs weighted by ``active``.

        It is used for scaling, so an estimate suffices: the mean square of the images of random
        signs.
        """
        draw = torch.Generator().manual_seed(0)
        sizes = (active / self.pairs.counts).sqrt()
        signs = 2 * torch.randint(2, (_N_PROBES, len(active)), generator=draw).to(sizes) - 1
        return torch.stack([self.apply(sizes * row).square() for row in signs]).mean(0)

    def matrix_rows(self, place: slice) -> Tensor | None:
        """Return the rows of :math:`K` of some pairs; ``None`` if :math:`K` is too wide.

        The preconditioner treats a map with these rows and one with a :meth:`gram_bound` jointly.
        """
        return None

    def gram_bound(self, active: Tensor) -> Tensor | None:
        r"""Return the diagonal of a diagonal matrix that is at least :math:`T T^*`, or ``None``."""
        return None

    def cross_gram(self, active: Tensor, columns: Tensor, place: slice) -> Tensor:
        r"""Return :math:`T K'` with the rows ``columns`` of another map's :math:`K'`.

        Pairs are weighted by ``active``. A map with a :meth:`gram_bound` must have it.
        """
        raise NotImplementedError


# Links of a new node


@dataclass(frozen=True, eq=False)
class Coupling:
    r"""A penalty :math:`\kappa (v \cdot a + v_0 a_0 - s)^2` on all links of a new node together."""

    weight: float  # the weight :math:`\kappa`
    edges: Tensor | float  # the vector :math:`v`, or a number that is the same for every node
    loop: float  # the number :math:`v_0`
    target: float  # the number :math:`s`


@dataclass(frozen=True, eq=False)
class RowCoefficients:
    r"""Coefficients of one or more terms in the problem of a new node's links.

    That problem has the dual of :mod:`glnn.solver.new_rows`. Coefficients of several terms are
    added. A metric :math:`M` adds the similarity :math:`s^\top M s_j` to :math:`n_j`, and half of
    :math:`s^\top M s` to :math:`n_0`.
    """

    edge_curvature: float | int = 0.0  # the number :math:`e`
    loop_curvature: float | int = 0.0  # the number :math:`\ell`
    edges: Tensor | float | int = 0.0  # part of :math:`n_j`: a vector, or one number for all
    loop: float | int = 0.0  # part of :math:`n_0`
    prior: float | int = 0.0  # factor of the prior graph's row in :math:`n_j`; half in :math:`n_0`
    metrics: tuple[Tensor, ...] = ()  # each a number, a weight for each channel, or a matrix
    couplings: tuple[Coupling, ...] = ()

    def __add__(self, other: "RowCoefficients") -> "RowCoefficients":
        return add_fields(self, other)

    def cpu(self) -> "RowCoefficients":
        """Return the coefficients on the CPU, where new nodes are connected."""
        return dataclasses.replace(
            self,
            edges=_to_cpu(self.edges),
            metrics=tuple(metric.cpu() for metric in self.metrics),
            couplings=tuple(dataclasses.replace(c, edges=_to_cpu(c.edges)) for c in self.couplings),
        )


def _to_cpu(value: Tensor | float | int) -> Tensor | float | int:
    return value.cpu() if isinstance(value, Tensor) else value


# Terms


class Term(ABC):
    """A weighted term of the objective.

    A subclass overrides :attr:`curvature` or :meth:`linear`, or derives from
    :class:`QuadraticTerm` and defines its map. :meth:`new_row` returns its coefficients for the
    links of a new node. Nothing else in the library depends on single terms.
    """

    name: str
    weight: float | int
    # Whether the term is the same for every symmetric graph; the solver then ignores it.
    is_constant: ClassVar[bool] = False
    # Whether the term only subtracts its weight from every entry of B. The weight can then be
    # chosen such that nodes have a given mean number of neighbours.
    sets_degree: ClassVar[bool] = False

    @abstractmethod
    def value(self, adj: Adjacency) -> Float[Tensor, ""]:
        """Return the value of the term for a graph, without its weight."""

    @property
    def curvature(self) -> float | int:
        r"""Part of :math:`\gamma`, the weight included."""
        return 0.0

    def linear(self) -> ImplicitMatrix:
        """Return the part of :math:`B`, the weight included."""
        return ImplicitMatrix()

    @abstractmethod
    def new_row(self, dual: Tensor) -> RowCoefficients:
        r"""Return the coefficients of the term for the links of a new node.

        ``RowCoefficients()`` if there are none. ``dual`` is :math:`2 w (T(A) - \tau)` of the
        learned graph if the term is a quadratic penalty, else empty.
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
    def adjoint(self, y: Tensor) -> ImplicitMatrix:
        """Return :math:`T^*(y)` as an implicit matrix."""

    def value(self, adj: Adjacency) -> Float[Tensor, ""]:
        r"""Return :math:`\|T(A) - \tau\|^2`."""
        return (self.image(adj) - self.target).square().sum()

    def pair_map(self, pairs: Pairs) -> PairMap:
        """Return the map for graphs on these pairs."""
        return PairMap(self, pairs)
