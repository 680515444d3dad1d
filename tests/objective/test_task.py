import torch
from torch.testing import assert_close

from glnn.graph import DenseAdjacency
from glnn.graph.pairs import Pairs, PairValues
from glnn.graph.spread import spread
from glnn.objective.task import Task


def test_value_and_linear_part_are_those_of_the_formed_costs(case):
    matrix, generator = case[0], torch.Generator().manual_seed(3)
    u, v = torch.randn(2, 5, 2, generator=generator, dtype=torch.float64)
    sides = spread(torch.cat([u, v], 1)), spread(torch.cat([v, u], 1))
    pairs = Pairs(sides[0].partition, *torch.triu_indices(5, 5))
    offset = PairValues(pairs, torch.arange(15.0, dtype=torch.float64))
    term = Task(*sides, offset, weight=2.0)
    extra = torch.zeros(5, 5, dtype=torch.float64)
    extra[pairs.i, pairs.j] = extra[pairs.j, pairs.i] = offset.values
    costs = (u @ v.T + v @ u.T) / 2 + extra
    assert_close(term.value(DenseAdjacency(matrix)), (costs * matrix).sum())
    assert_close(term.linear().on_pairs(pairs), -2 * costs[pairs.i, pairs.j])
