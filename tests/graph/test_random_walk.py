import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph.random_walk import RandomWalk, walk_matrix, with_loops, without_loops
from glnn.peers import Partition


@pytest.fixture
def graph():
    rng = np.random.default_rng(0)
    upper = np.triu((rng.random((11, 11)) < 0.3) * rng.random((11, 11)))
    matrix = upper + upper.T
    matrix[4] = matrix[:, 4] = 0  # a node alone
    return sp.csr_matrix(matrix)


def test_a_walk_leaves_a_constant_as_it_is_wherever_there_is_a_link(graph):
    ones = torch.ones(11, 1)
    expected = ones.clone()
    expected[4] = 0
    assert_close(RandomWalk.of(graph) @ ones, expected)


def test_walk_and_matrix_agree(graph):
    x = torch.randn(11, 3, generator=torch.Generator().manual_seed(0))
    expected = torch.from_numpy(walk_matrix(graph) @ x.double().numpy())
    assert_close(RandomWalk.of(graph) @ x, expected.float())


def test_gradients_go_back_over_the_transposed_walk(graph):
    x = torch.randn(11, 2, requires_grad=True)
    weight = torch.randn(11, 2)
    ((RandomWalk.of(graph) @ x) * weight).sum().backward()
    expected = torch.from_numpy(walk_matrix(graph).T @ weight.double().numpy())
    assert_close(x.grad, expected.float())


def test_processes_have_the_rows_of_the_whole_walk(graph, together):
    x = torch.randn(11, 2, generator=torch.Generator().manual_seed(1))

    def work(peers):
        part = Partition(11, peers)
        block = with_loops(graph[part.rows], part.start)
        return RandomWalk.of(block, part) @ x[part.rows]

    assert_close(torch.cat(together(3, work)), RandomWalk.of(with_loops(graph)) @ x)


def test_loops_are_set_and_taken_away(graph):
    assert (without_loops(graph).diagonal() == 0).all()
    assert (with_loops(graph).diagonal() == 1).all()
    apart = without_loops(graph) + sp.diags(graph.diagonal())
    assert abs(apart - graph).max() == 0
