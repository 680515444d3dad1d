import torch
from torch.testing import assert_close

from glnn.graph import DenseAdjacency
from glnn.graph.pairs import Pairs
from glnn.objective.loops import Loops
from glnn.peers import ALONE, Partition


def test_the_share_of_a_new_node_is_what_the_term_changes_by(case, share_change, with_new_node):
    matrix, links, loop = case
    term = Loops(0.7, torch.ones(5, dtype=torch.float64))
    before = DenseAdjacency(matrix)
    share = term.new_row(2 * term.weight * term.image(before))
    after = term.weight * term.value(with_new_node(matrix, links, loop))
    assert_close(after - term.weight * term.value(before), share_change(share, links, loop))


def test_only_loops_count():
    pairs = Pairs(Partition(3, ALONE), torch.tensor([0, 0, 2]), torch.tensor([0, 1, 2]))
    pair_map = Loops(1.0, torch.ones(3, dtype=torch.float64)).on(pairs)
    assert pair_map.apply(torch.tensor([1.0, 5.0, 2.0])).tolist() == [3.0]
    assert pair_map.adjoint(torch.tensor([4.0])).tolist() == [4.0, 0.0, 4.0]


def test_map_and_adjoint_belong_together(holds_adjoint):
    holds_adjoint("loops")
