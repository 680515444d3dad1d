r"""The dual of the graph problem on one working set of pairs.

With one vector :math:`y_m` per penalty, the graph is a function of the dual point,

.. math:: a(y) = \max(0,\, b - \textstyle\sum_m T_m^*(y_m)) / (2\gamma),

and the dual to be maximised is concave, once differentiable and piecewise quadratic:

.. math:: D(y) = -\gamma \|a(y)\|^2 - \sum_m \Big(\frac{\|y_m\|^2}{4 w_m}
          + \langle y_m, \tau_m\rangle\Big), \qquad
          \nabla_m D = T_m(a(y)) - \tau_m - \frac{y_m}{2 w_m} .

Every process has the whole dual point and the graph on its own pairs.
"""

import dataclasses
import itertools
from dataclasses import dataclass

import torch
from torch import Tensor

from glnn.graph.pairs import Pairs
from glnn.objective import QuadraticTerm
from glnn.objective.pair_map import PairMap
from glnn.peers import Peers
from glnn.peers.once import computed_once
from glnn.solver.accuracy import largest, unit
from glnn.solver.problem import Dual, Problem


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
