"""The convex graph problem in its standard form, and its two values."""

import dataclasses
import itertools
import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from glnn.distributed import Partition, Peers, computed_once
from glnn.exceptions import ProblemError
from glnn.graph.pairs import Implicit, Pairs
from glnn.objective import Objective, QuadraticTerm, Term
from glnn.objective.base import PairMap, RowShare

# --- problem: The convex graph problem in its standard form, and its two values

Dual = dict[str, Tensor]
"""One vector for each penalty, by its name."""


@dataclass(frozen=True, eq=False)
class Problem:
    r"""Minimise over symmetric :math:`A \ge 0` on the support.

    .. math:: \gamma\|A\|^2 - \langle B, A\rangle + \sum_m w_m \|T_m(A) - \tau_m\|^2 .

    Parameters
    ----------
    objective
        The terms, of which those with a positive weight count.
    partition
        Which rows and pairs are in this process.
    loops
        Whether the diagonal belongs to the support.
    support
        This process's pairs that may become edges; ``None`` for all pairs.
    device
        Where the numbers lie.
    """

    objective: Objective
    partition: Partition
    loops: bool = True
    support: Pairs | None = None
    device: str = "cpu"

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return self.partition.n_nodes

    @property
    def terms(self) -> tuple[Term, ...]:
        """The terms that count."""
        return tuple(term for term in self.objective.parts if term.weight > 0)

    @cached_property
    def curvature(self) -> float:
        r"""The number :math:`\gamma`; without one, there is no unique minimum."""
        total = float(sum(term.curvature for term in self.terms))
        if total <= 0:
            raise ProblemError(
                "the graph problem needs weights.closeness > 0 with a given graph, or "
                "weights.ridge > 0: without either it has no unique minimum. "
                "Give a graph, or use Weights.without_prior()."
            )
        return total

    @cached_property
    def linear(self) -> Implicit:
        """The matrix :math:`B`, never formed."""
        given = (term.linear() for term in self.terms)
        return sum((part for part in given if part is not None), start=Implicit())

    @cached_property
    def penalties(self) -> tuple[QuadraticTerm, ...]:
        """The quadratic penalties."""
        given = (term.penalty() for term in self.terms)
        return tuple(penalty for penalty in given if penalty is not None)

    def for_degree(self, weight: float) -> "Problem":
        """Return the same problem with another weight of the term that sets the degree."""
        return dataclasses.replace(self, objective=self.objective.for_degree(weight))

    def numerator(self, dual: Dual) -> Implicit:
        r"""Return :math:`B - \sum_m T_m^*(y_m)`; its positive part over :math:`2\gamma` is A."""
        return self.linear + self.correction(dual)

    def correction(self, dual: Dual) -> Implicit:
        r"""Return :math:`-\sum_m T_m^*(y_m)`."""
        parts = (penalty.adjoint(-dual[penalty.name]) for penalty in self.penalties)
        return sum(parts, start=Implicit())

    def images(self, pairs: Pairs, values: Tensor) -> Dual:
        r"""Return :math:`T_m(A)` of the graph with these values on everyone's pairs."""
        peers = self.partition.peers
        return {p.name: peers.all_reduce(p.on(pairs).apply(values)) for p in self.penalties}

    def dual_of(self, images: Dual) -> Dual:
        r"""Return :math:`y_m = 2 w_m (T_m(A) - \tau_m)`, the dual point a graph implies."""
        return {p.name: 2 * p.weight * (images[p.name] - p.target) for p in self.penalties}

    def primal_value(
        self,
        pairs: Pairs,
        values: Tensor,
        images: Dual | None = None,
        gains: Tensor | None = None,
    ) -> float:
        """Return the objective of the graph with these values on the pairs, up to a constant.

        ``images`` and ``gains``, the entries of :math:`B`, may be known already.
        """
        images = self.images(pairs, values) if images is None else images
        gains = self.linear.on_pairs(pairs) if gains is None else gains
        own = (pairs.counts * values).dot(self.curvature * values - gains)
        value = self.partition.peers.all_reduce(float(own))
        for penalty in self.penalties:
            misfit = images[penalty.name] - penalty.target
            value += float(penalty.weight * misfit.dot(misfit))
        return value

    def dual_value(self, dual: Dual, squares: float) -> float:
        r"""Return :math:`-\gamma\|A(y)\|^2 - \sum_m \|y_m\|^2/(4 w_m) + \langle y_m,\tau_m\rangle`.

        ``squares`` is :math:`\|A(y)\|^2` over the whole support.
        """
        value = -self.curvature * squares
        for penalty in self.penalties:
            y = dual[penalty.name]
            value -= float(y.dot(y)) / (4 * penalty.weight) + float(y.dot(penalty.target.to(y)))
        return value

    def new_row(self, dual: Dual) -> RowShare:
        """Return the one-row problem of a new node: the sum of what the terms say of it.

        It lies on the host, where new nodes are connected.
        """
        shares = [term.new_row(dual.get(term.name)).cpu() for term in self.terms]
        return sum(shares, start=RowShare())

    def starting_pairs(self, candidates: tuple[Tensor, Tensor]) -> Pairs:
        """Return this process's pairs: loops, candidates, and those that a term names."""
        part = self.partition
        own = torch.arange(part.start, part.stop, device=candidates[0].device)
        ends = [candidates, (own, own)]
        if self.linear.sparse is not None:
            named = self.linear.sparse.pairs.select(self.linear.sparse.values != 0)
            ends.append((named.i, named.j))
        pairs = Pairs.union(part, ends)
        return pairs if self.loops else pairs.select(pairs.i != pairs.j)


# --- accuracy: How exact a graph must be: violations are measured against the size of its entries

_SMALL = 0.01  # graphs with entries below this are held to a hundred times their largest entry
_ROUNDING = 1e-6  # share of the gains below which entries are too small to be told from rounding


def largest(values: Tensor) -> float:
    """Return the largest of some numbers, at least 0; infinity if one of them is NaN.

    Examples
    --------
    >>> largest(torch.tensor([-1.0])), largest(torch.tensor([2.0, torch.nan]))
    (0.0, inf)
    """
    found = float(values.max()) if len(values) else 0.0
    return math.inf if math.isnan(found) else max(0.0, found)


def unit(entry: float, gain: float) -> float:
    """Return what a violation is measured against.

    One for graphs as they usually are; the largest entry where that is above one; less than one
    where all entries are tiny, so that a graph of other tiny entries is not as good. Zero where
    an entry is not finite: then nothing is exact.

    Parameters
    ----------
    entry
        The largest entry of the graph.
    gain
        The largest entry that the linear terms alone would give or take.

    Examples
    --------
    >>> unit(0.3, 1.0), unit(20.0, 1.0), unit(0.0001, 0.0)
    (1.0, 20.0, 0.01)
    """
    if not math.isfinite(entry):
        return 0.0
    return max(entry, min(1.0, entry / _SMALL), _ROUNDING * gain)


# --- dual: The dual of the graph problem on one working set of pairs


@dataclass(frozen=True, eq=False)
class WorkingProblem:
    """The problem restricted to a list of pairs: offsets and maps evaluated once.

    Parameters
    ----------
    pairs
        This process's pairs.
    offsets
        The entries :math:`b` on them.
    penalties, maps
        The penalties, and the same as maps on the pairs.
    curvature
        The number gamma of the problem.
    """

    pairs: Pairs
    offsets: Tensor
    penalties: tuple[QuadraticTerm, ...]
    maps: tuple[PairMap, ...]
    curvature: float

    @classmethod
    def of(cls, problem: Problem, pairs: Pairs) -> "WorkingProblem":
        """Evaluate ``b`` and the maps on the pairs."""
        maps = tuple(penalty.on(pairs) for penalty in problem.penalties)
        offsets = problem.linear.on_pairs(pairs)
        return cls(pairs, offsets, problem.penalties, maps, problem.curvature)

    def shifted(self, constant: float) -> "WorkingProblem":
        """Return the same with ``constant`` added to every offset."""
        return dataclasses.replace(self, offsets=self.offsets + constant)

    @property
    def peers(self) -> Peers:
        """The processes over which the pairs are spread."""
        return self.pairs.partition.peers

    @computed_once
    def slices(self) -> list[slice]:
        """Return where each penalty's part of a dual vector lies."""
        ends = itertools.accumulate((len(p.target) for p in self.penalties), initial=0)
        return [slice(a, b) for a, b in itertools.pairwise(ends)]

    @computed_once
    def target(self) -> Tensor:
        r"""Return the vectors :math:`\tau_m`, one after the other."""
        return torch.cat([self.offsets[:0], *(p.target for p in self.penalties)])

    @computed_once
    def inverse(self) -> Tensor:
        """Return the numbers :math:`1 / (2 w_m)`, entry by entry."""
        parts = [torch.full_like(p.target, 0.5 / p.weight) for p in self.penalties]
        return torch.cat([self.offsets[:0], *parts])

    def adjoint(self, y: Tensor) -> Tensor:
        """Return :math:`T^*(y)` on the pairs."""
        total = torch.zeros_like(self.offsets)
        for part, pair_map in zip(self.slices, self.maps):
            pair_map.add_adjoint(total, y[part])
        return total

    def apply(self, values: Tensor) -> Tensor:
        """Return :math:`T(a)` of everyone's pairs."""
        parts = [pair_map.apply(values) for pair_map in self.maps]
        return self.peers.all_reduce(torch.cat([self.offsets[:0], *parts]))

    def squares(self, active: Tensor) -> Tensor:
        """Return the diagonal of :math:`T T^*` over the active pairs of everyone."""
        parts = [pair_map.squares(active) for pair_map in self.maps]
        return self.peers.all_reduce(torch.cat([self.offsets[:0], *parts]))

    def point(self, y: Tensor) -> tuple[Tensor, float]:
        """Return the graph ``a(y)`` and the value ``-D(y)``."""
        values = (self.offsets - self.adjoint(y)).clamp_(min=0).div_(2 * self.curvature)
        squares = self.peers.all_reduce((self.pairs.counts * values).dot(values))
        fixed = torch.addcmul(self.target, self.inverse, y, value=0.5).dot(y)
        return values, self.peers.broadcast(float(fixed + self.curvature * squares))

    def gradient(self, y: Tensor, values: Tensor) -> Tensor:
        """Return the gradient of ``-D``."""
        return torch.addcmul(self.target, self.inverse, y) - self.apply(values)

    def violation(self, gradient: Tensor) -> float:
        r"""Bound how far :math:`a` is from :math:`a(2 w (T(a) - \tau))`, entry by entry."""
        return self.largest(self.adjoint(gradient / self.inverse).abs()) / (2 * self.curvature)

    def largest(self, values: Tensor) -> float:
        """Return the largest number on the pairs of all processes, at least 0."""
        return self.peers.all_reduce(largest(values), "max")

    @computed_once
    def gain(self) -> float:
        """Return the largest entry that the linear terms alone would give or take."""
        return self.largest(self.offsets.abs()) / (2 * self.curvature)

    def unit(self, values: Tensor) -> float:
        """Return what violations of the graph with these values are measured against."""
        return unit(self.largest(values), self.gain)

    def dot(self, first: Tensor, second: Tensor) -> float:
        """Return the inner product of two dual vectors, the same bits in every process."""
        return self.peers.broadcast(float(first.dot(second)))

    def named(self, y: Tensor) -> Dual:
        """Return the parts of ``y`` by the names of their penalties."""
        return {p.name: y[part].clone() for p, part in zip(self.penalties, self.slices)}

    def completed(self, dual: Dual, values: Tensor) -> Dual:
        """Return the dual point of a graph, with what the pairs do not depend on filled in.

        A number that no pair depends on, such as that of a node without one, is free here. It
        counts for pairs that are looked at later, and for new nodes: it is as the graph implies.
        """
        y = self.start(dual)
        met = self.squares(torch.ones_like(self.offsets))
        implied = y - self.gradient(y, values) / self.inverse
        return self.named(torch.where(met == 0, implied, y))

    def start(self, dual: Dual | None) -> Tensor:
        """Return a flat start; parts that do not fit this problem start at zero."""
        y = torch.zeros_like(self.target)
        for penalty, part in zip(self.penalties, self.slices):
            given = (dual or {}).get(penalty.name)
            if given is not None and given.shape == penalty.target.shape:
                y[part] = given.to(y)
        return y
