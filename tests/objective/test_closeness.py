import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph import DenseAdjacency, SparseAdjacency
from glnn.graph.pairs import Pairs
from glnn.objective.closeness import Closeness, Proximal
from glnn.peers import ALONE, Partition


def test_the_share_of_a_new_node_is_what_the_term_changes_by(case, share_change, with_new_node):
    matrix, links, loop = case
    prior, prior_links, prior_loop = matrix.flip(0, 1), links.flip(0), 0.1
    grown = Closeness(0.7, with_new_node(prior, prior_links, prior_loop))

    def value(some, own):
        return grown.weight * grown.value(with_new_node(matrix, some, own))

    share = Closeness(0.7, DenseAdjacency(prior)).new_row(None)
    found = share_change(share, links, loop, prior_links, prior_loop)
    assert_close(value(links, loop) - value(0 * links, 0.0), found)


def test_the_linear_part_is_twice_the_weighted_graph(case):
    matrix = case[0] * (case[0] > 0.3)
    pairs = Pairs(Partition(5, ALONE), *torch.triu_indices(5, 5))
    term = Proximal(0.7, DenseAdjacency(matrix))
    assert_close(term.linear().on_pairs(pairs), 1.4 * matrix[pairs.i, pairs.j])
    assert term.curvature == 0.7
    assert len(term.linear().sparse.pairs) == int((matrix.triu() != 0).sum())


def test_an_earlier_graph_has_no_link_of_a_new_node(case):
    share = Proximal(0.7, DenseAdjacency(case[0])).new_row(None)
    assert (share.edge_curvature, share.loop_curvature, share.prior) == (1.4, 0.7, 0)


def test_the_value_is_the_squared_distance_whatever_is_stored(case):
    matrix, other = case[0] * (case[0] > 0.3), case[0].flip(0, 1) * (case[0].flip(0, 1) > 0.2)
    graph = SparseAdjacency.from_scipy(sp.csr_matrix(matrix.numpy()))
    prior = SparseAdjacency.from_scipy(sp.csr_matrix(other.numpy()))
    assert bool(((matrix == 0) & (other > 0)).any())  # entries that one of them lacks
    for term in (Proximal(0.7, prior), Closeness(0.7, prior)):
        assert_close(term.value(graph), (matrix - other).square().sum())
