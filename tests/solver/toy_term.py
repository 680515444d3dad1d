"""A user's term: penalises the distance of a node group's total edge weight to a target."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glnn.graph.adjacency import Adjacency
from glnn.graph.pairs import ImplicitMatrix
from glnn.objective import QuadraticTerm
from glnn.objective.base import Coupling, RowCoefficients


@dataclass(frozen=True, eq=False)
class GroupWeight(QuadraticTerm):
    r""":math:`(\sum_{i \in S} r_i - c)^2` with the row sums :math:`r`: ``group`` marks S."""

    weight: float
    group: Tensor
    total: float
    name: str = "group_weight"

    @property
    def target(self) -> Tensor:
        return torch.tensor([self.total], dtype=torch.float64)

    def image(self, adj: Adjacency) -> Tensor:
        return (self.group * adj.row_sums()).sum()[None]

    def adjoint(self, y: Tensor) -> ImplicitMatrix:
        return ImplicitMatrix(nodes=self.group * y[0] / 2)

    def new_row(self, dual: Tensor | None) -> RowCoefficients:
        missing = -float(dual[0]) / (2 * self.weight)
        return RowCoefficients(couplings=(Coupling(self.weight, self.group, 0.0, missing),))
