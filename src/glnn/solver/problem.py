"""The convex graph problem in its standard form, and its two values."""

import dataclasses
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from glnn.exceptions import ProblemError
from glnn.graph.implicit import Implicit
from glnn.graph.pairs import Pairs
from glnn.objective import Objective, QuadraticTerm, Term
from glnn.objective.new_row import RowShare
from glnn.peers import Partition

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
