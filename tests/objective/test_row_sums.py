import torch
from torch.testing import assert_close

from glnn.graph import DenseAdjacency
from glnn.objective.row_sums import RowSums


def test_the_share_of_a_new_node_is_what_the_term_changes_by(case, share_change, with_new_node):
    matrix, links, loop = case
    term = RowSums(0.7, torch.ones(5, dtype=torch.float64))
    grown = RowSums(0.7, torch.ones(6, dtype=torch.float64))
    dual = 2 * term.weight * (term.image(DenseAdjacency(matrix)) - term.target)
    share = term.new_row(dual)

    def change(some, own):
        return term.weight * grown.value(with_new_node(matrix, some, own))

    found = share_change(share, links, loop)
    assert_close(change(links, loop) - change(0 * links, 0.0), found)


def test_map_and_adjoint_belong_together(holds_adjoint):
    holds_adjoint("row_sums")
