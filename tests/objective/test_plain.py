import pytest
from torch.testing import assert_close

from glnn.graph import DenseAdjacency
from glnn.objective.plain import Ridge, Sparsity, Symmetry


@pytest.mark.parametrize("term", [Sparsity(0.7), Ridge(0.7), Symmetry(0.7)])
def test_the_share_of_a_new_node_is_what_the_term_changes_by(
    term, case, share_change, with_new_node
):
    matrix, links, loop = case
    before = term.value(DenseAdjacency(matrix))
    after = term.value(with_new_node(matrix, links, loop))
    assert_close(term.weight * (after - before), share_change(term.new_row(None), links, loop))


def test_what_the_solver_sees_of_them():
    assert Sparsity(0.3).linear().constant == -0.3
    assert Ridge(0.3).curvature == 0.3
    assert Symmetry(0.3).linear() is None and Symmetry(0.3).curvature == 0


def test_sparsity_alone_sets_the_number_of_neighbours():
    assert [term(0.3).sets_degree for term in (Sparsity, Ridge, Symmetry)] == [True, False, False]
