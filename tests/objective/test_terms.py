import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.distributed import Partition
from glnn.graph import DenseAdjacency, SparseAdjacency
from glnn.graph.pairs import Pairs, as_sharded_rows
from glnn.objective import QuadraticTerm
from glnn.objective.terms import (
    Closeness,
    Loops,
    Ridge,
    RowSums,
    Sparsity,
    Symmetry,
    TaskCost,
)


def ones(n):
    return torch.ones(n, dtype=torch.float64)


TERMS = {
    "sparsity": lambda n, prior: Sparsity(0.7),
    "ridge": lambda n, prior: Ridge(0.7),
    "symmetry": lambda n, prior: Symmetry(0.7),
    "loops": lambda n, prior: Loops(0.7, ones(n)),
    "row_sums": lambda n, prior: RowSums(0.7, ones(n)),
    "closeness": lambda n, prior: Closeness(0.7, prior),
}


@pytest.mark.parametrize("name", TERMS)
def test_the_share_of_a_new_node_is_what_the_term_changes_by(
    name, case, share_change, with_new_node
):
    matrix, links, loop = case
    prior, prior_links, prior_loop = matrix.flip(0, 1), links.flip(0), 0.1
    term = TERMS[name](5, DenseAdjacency(prior))
    grown = TERMS[name](6, with_new_node(prior, prior_links, prior_loop))
    dual = torch.empty(0)
    if isinstance(term, QuadraticTerm):
        dual = 2 * term.weight * (term.image(DenseAdjacency(matrix)) - term.target)

    def value(some, own):
        return term.weight * grown.value(with_new_node(matrix, some, own))

    found = share_change(term.new_row(dual), links, loop, prior_links, prior_loop)
    assert_close(value(links, loop) - value(0 * links, 0.0), found)


def test_the_linear_part_is_twice_the_weighted_graph(case):
    matrix = case[0] * (case[0] > 0.3)
    pairs = Pairs(Partition(5), *torch.triu_indices(5, 5))
    term = Closeness(0.7, SparseAdjacency.from_scipy(sp.csr_matrix(matrix.numpy())))
    assert_close(term.linear().on_pairs(pairs), 1.4 * matrix[pairs.i, pairs.j])
    assert term.curvature == 0.7
    assert len(term.linear().sparse.pairs) == int((matrix.triu() != 0).sum())


def test_the_value_is_the_squared_distance_whatever_is_stored(case):
    matrix, other = case[0] * (case[0] > 0.3), case[0].flip(0, 1) * (case[0].flip(0, 1) > 0.2)
    graph = SparseAdjacency.from_scipy(sp.csr_matrix(matrix.numpy()))
    prior = SparseAdjacency.from_scipy(sp.csr_matrix(other.numpy()))
    assert bool(((matrix == 0) & (other > 0)).any())  # entries that one of them lacks
    assert_close(Closeness(0.7, prior).value(graph), (matrix - other).square().sum())


def test_value_and_linear_part_are_those_of_the_formed_costs(case):
    matrix, generator = case[0], torch.Generator().manual_seed(3)
    u, v = torch.randn(2, 5, 2, generator=generator, dtype=torch.float64)
    sides = as_sharded_rows(torch.cat([u, v], 1)), as_sharded_rows(torch.cat([v, u], 1))
    pairs = Pairs(Partition(5), *torch.triu_indices(5, 5))
    term = TaskCost(*sides, weight=2.0)
    costs = (u @ v.T + v @ u.T) / 2
    assert_close(term.value(DenseAdjacency(matrix)), (costs * matrix).sum())
    assert_close(term.linear().on_pairs(pairs), -2 * costs[pairs.i, pairs.j])
