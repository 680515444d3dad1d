import numpy as np
import pytest

from glnn.exceptions import InputError
from glnn.objective import Weights
from glnn.solver.problem import build_problem
from glnn.solver.support import SolverTask, starting_pairs


@pytest.fixture
def problem(rng, make_graph, make_features):
    return build_problem(make_features(20, 3, rng), make_graph(20, rng), Weights(), "trace")


def test_given_edges_loops_and_candidates_are_looked_at(problem):
    pairs = starting_pairs(problem, (np.array([19]), np.array([0])))
    dense = pairs.to_csr(np.ones(len(pairs))).toarray()
    expected = (problem.linear.sparse.toarray() != 0) | np.eye(20, dtype=bool)
    expected[0, 19] = expected[19, 0] = True
    assert np.array_equal(dense > 0, expected)


@pytest.mark.parametrize("bad", [-1, 20])
def test_candidates_outside_the_nodes_are_refused(problem, bad):
    with pytest.raises(InputError, match=r"node numbers in \[0, 20\)"):
        SolverTask(problem, None, (np.array([0]), np.array([bad])), Weights())
