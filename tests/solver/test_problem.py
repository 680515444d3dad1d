import numpy as np
import pytest
from sklearn.preprocessing import normalize

from glnn.exceptions import ProblemError
from glnn.graph import prior_graph
from glnn.objective import Weights
from glnn.solver.problem import TaskTerm, build_problem


@pytest.mark.parametrize("reading", ["trace", "channel", "frobenius"])
def test_primal_value_is_the_objective_up_to_a_constant(
    reading, rng, dense_problem, make_graph, make_features
):
    signal, prior = normalize(make_features(20, 4, rng)), prior_graph(make_graph(20, rng), "binary")
    u, v = rng.standard_normal((2, 20, 2))
    weights = Weights(ridge=0.3)
    problem = build_problem(signal, prior, weights, reading, task=TaskTerm(u, v))
    cost = (u @ v.T + v @ u.T) / 2
    dense = dense_problem(signal, weights, reading, prior.toarray(), cost=cost)
    graphs = [make_graph(20, rng) * scale for scale in (0.5, 1.0, 2.0)]
    differences = [problem.primal_value(a) - dense.value(a.toarray()) for a in graphs]
    assert np.allclose(differences, differences[0])


def test_shifting_is_a_change_of_the_sparsity_weight(rng, make_features, make_graph):
    signal, a = make_features(10, 3, rng), make_graph(10, rng)
    problem, other = (
        build_problem(signal, None, Weights(ridge=1.0, sparsity=s), "trace") for s in (0.1, 0.4)
    )
    assert np.isclose(problem.shifted(-0.3).primal_value(a), other.primal_value(a))


def test_closeness_without_a_prior_does_not_count(rng, make_features):
    with pytest.raises(ProblemError, match="ridge"):
        build_problem(make_features(5, 2, rng), None, Weights(closeness=10.0), "trace")


def test_a_proximal_weight_alone_makes_the_problem_solvable(rng, make_features, make_graph):
    previous = make_graph(5, rng)
    problem = build_problem(
        make_features(5, 2, rng), None, Weights(), "trace", proximal=(0.5, previous)
    )
    assert problem.curvature == 0.5
