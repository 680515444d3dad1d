import torch
from torch.testing import assert_close

from glnn.graph import DenseAdjacency
from glnn.graph.pairs import Pairs
from glnn.graph.spread import spread
from glnn.objective.smoothness import TraceSmoothness


def test_the_linear_part_is_the_weighted_similarity():
    x = torch.arange(6.0, dtype=torch.float64).view(3, 2)
    term = TraceSmoothness(2.0, spread(x))
    pairs = Pairs(term.signal.partition, *torch.triu_indices(3, 3))
    assert_close(term.linear().on_pairs(pairs), 2 * (x @ x.T)[pairs.i, pairs.j])
    assert term.penalty() is None


def test_the_value_falls_by_the_similarity_of_an_edge():
    x = torch.arange(6.0, dtype=torch.float64).view(3, 2)
    edge = torch.zeros(3, 3, dtype=torch.float64)
    edge[0, 2] = edge[2, 0] = 1.0
    values = [TraceSmoothness(1.0, spread(x)).value(DenseAdjacency(a)) for a in (0 * edge, edge)]
    assert_close(values[0] - values[1], 2 * x[0].dot(x[2]))


def test_a_new_node_is_compared_by_the_weight():
    share = TraceSmoothness(2.0, spread(torch.eye(2))).new_row(None)
    assert [float(metric) for metric in share.metrics] == [2.0]
