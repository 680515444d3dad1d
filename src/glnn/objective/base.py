r"""What every term of the objective says of itself: its value, and how it enters the solver.

The solver minimises, over symmetric :math:`A \ge 0`,

.. math:: \gamma\|A\|^2 - \langle B, A\rangle + \sum_m w_m \|T_m(A) - \tau_m\|^2 ,

which differs from the sum of the terms by a constant. A term adds to the curvature
:math:`\gamma`, to the matrix :math:`B`, or is one of the penalties. Inner products run over the
full symmetric matrix: :math:`\langle T(A), y\rangle = \sum_{ij} a_{ij}\,T^*(y)_{ij}`.
"""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from glnn.graph.adjacency import Adjacency, SparseAdjacency
from glnn.graph.pairs import Implicit, Pairs

# --- pair_map: A penalty's map :math:`T` and its adjoint for graphs that live on one list of pairs

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


# --- new_row: What a term adds to the one-row problem: edges of a new node to a graph that stays a


@dataclass(frozen=True, eq=False)
class Coupling:
    r"""A penalty :math:`\kappa (v \cdot a + v_0 a_0 - s)^2` that ties the links of a new node.

    ``edges`` is the vector :math:`v`; its one entry stands for all nodes where it has only one.
    """

    weight: float
    edges: Tensor
    loop: float
    target: float


@dataclass(frozen=True, eq=False)
class RowShare:
    r"""A term's part of the one-row problem; each of its fields is a sum over terms.

    Parameters
    ----------
    edge_curvature, loop_curvature
        :math:`e` and :math:`\ell`.
    edges
        Numerators :math:`n_j` that do not depend on the new node: one for all, or one a node.
    loop
        The same for :math:`n_0`.
    prior
        What a unit of the prior graph's row adds to :math:`n_j`, and half of it to :math:`n_0`.
    metrics
        Similarities :math:`s^\top M s_j` that are added to :math:`n_j`, and half of
        :math:`s^\top M s` to :math:`n_0`: each a number, one weight a channel, or a matrix.
    couplings
        Penalties that tie the links.
    """

    edge_curvature: float | int = 0.0
    loop_curvature: float | int = 0.0
    edges: Tensor | None = None
    loop: float | int = 0.0
    prior: float | int = 0.0
    metrics: tuple[Tensor, ...] = ()
    couplings: tuple[Coupling, ...] = ()

    def __add__(self, other: "RowShare") -> "RowShare":
        both = [part for part in (self.edges, other.edges) if part is not None]
        return RowShare(
            self.edge_curvature + other.edge_curvature,
            self.loop_curvature + other.loop_curvature,
            both[0] + both[-1] if len(both) == 2 else next(iter(both), None),
            self.loop + other.loop,
            self.prior + other.prior,
            self.metrics + other.metrics,
            self.couplings + other.couplings,
        )

    def packed(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the arrays by name, and the plain numbers, to be written to a file."""
        arrays = {f"metric.{k}": metric.numpy() for k, metric in enumerate(self.metrics)}
        arrays |= {f"coupling.{k}": c.edges.numpy() for k, c in enumerate(self.couplings)}
        if self.edges is not None:
            arrays["edges"] = self.edges.numpy()
        numbers = ("edge_curvature", "loop_curvature", "loop", "prior")
        facts: dict[str, Any] = {name: float(getattr(self, name)) for name in numbers}
        facts["n_metrics"] = len(self.metrics)
        facts["couplings"] = [[c.weight, c.loop, c.target] for c in self.couplings]
        return arrays, facts

    @classmethod
    def unpacked(cls, arrays: dict[str, np.ndarray], facts: dict[str, Any]) -> "RowShare":
        """Return what :meth:`packed` took apart."""
        given = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        numbers = ("edge_curvature", "loop_curvature", "loop", "prior")
        return cls(
            **{name: facts[name] for name in numbers},
            edges=given.get("edges"),
            metrics=tuple(given[f"metric.{k}"] for k in range(facts["n_metrics"])),
            couplings=tuple(
                Coupling(weight, given[f"coupling.{k}"], loop, target)
                for k, (weight, loop, target) in enumerate(facts["couplings"])
            ),
        )

    def cpu(self) -> "RowShare":
        """Return the same on the host, where new nodes are connected."""
        return dataclasses.replace(
            self,
            edges=None if self.edges is None else self.edges.cpu(),
            metrics=tuple(metric.cpu() for metric in self.metrics),
            couplings=tuple(
                dataclasses.replace(coupling, edges=coupling.edges.cpu())
                for coupling in self.couplings
            ),
        )


def number(value: float | int) -> Tensor:
    """Return a number as a vector of one entry, in double precision."""
    return torch.tensor([float(value)], dtype=torch.float64)


# --- base: What every term of the objective says of itself: its value, and how it enters the solve

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
