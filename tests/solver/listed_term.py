"""A term with listed pairs: penalises the distance of the edges' total weight to a target."""

from dataclasses import dataclass

import torch
from torch import Tensor

from glnn.distributed import Partition
from glnn.graph.adjacency import Adjacency
from glnn.graph.pairs import ImplicitMatrix, Pairs, PairValues, pair_owners
from glnn.objective import QuadraticTerm
from glnn.objective.base import RowCoefficients


@dataclass(frozen=True, eq=False)
class ListedWeight(QuadraticTerm):
    r""":math:`(\sum_{(i,j) \in E} a_{ij} - c)^2` with a sorted list E of pairs i < j."""

    weight: float
    ends: tuple[Tensor, Tensor]
    total: float
    partition: Partition
    name: str = "listed_weight"

    @property
    def target(self) -> Tensor:
        return torch.tensor([self.total])  # single precision, which a user may well write

    def image(self, adj: Adjacency) -> Tensor:
        return adj.entries(*self.ends).sum()[None]

    def adjoint(self, y: Tensor) -> ImplicitMatrix:
        i, j = self.ends
        own = pair_owners(self.partition, i, j) == self.partition.peers.rank
        pairs = Pairs(self.partition, i[own], j[own])
        return ImplicitMatrix(sparse=PairValues(pairs, (y[0] / 2).expand(len(pairs)).clone()))

    def new_row(self, dual: Tensor | None) -> RowCoefficients:
        return RowCoefficients()  # no pair of a new node is on the list
