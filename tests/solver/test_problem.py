import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.distributed import Partition
from glnn.graph import DenseAdjacency, SparseAdjacency, prior_graph
from glnn.graph.pairs import as_sharded_rows
from glnn.objective import READINGS, Weights
from glnn.objective.terms import TaskCost
from glnn.solver.problem import WorkingProblem

# Problem

STORAGES = {
    "sparse": SparseAdjacency.from_scipy,
    "dense": lambda matrix: DenseAdjacency(torch.from_numpy(matrix.toarray())),
}


@pytest.mark.parametrize("store", STORAGES.values(), ids=STORAGES)
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("sparse", [True, False])
def test_the_objective_differs_from_the_primal_value_by_a_constant(
    store, reading, sparse, rng, make_problem, make_graph, make_features
):
    n, part = 20, Partition(20)
    u, v = rng.standard_normal((2, n, 2))
    sides = (as_sharded_rows(np.hstack(both)) for both in ((u, v), (v, u)))
    more = [TaskCost(*sides)]
    weights = Weights(smoothness=0.7, sparsity=0.2, ridge=0.3, symmetry=0.5, loops=0.2)
    prior = prior_graph(make_graph(n, rng), "renormalized")
    x = make_features(n, 4, rng, sparse=sparse)
    problem = make_problem(x, weights, reading, prior=prior, more=more)
    differences = []
    for scale in (0.0, 0.5, 1.0, 2.0):
        graph = sp.csr_matrix(scale * (make_graph(n, rng) + sp.diags(rng.random(n))))
        known = SparseAdjacency.from_rows(part, graph)
        own = (known.pairs, known.values)
        gains = problem.linear.on_pairs(known.pairs)
        primal = problem.primal_value(*own, problem.images(*own), gains)
        differences.append(float(problem.objective(store(graph))) - primal)
    assert np.allclose(differences, differences[0], rtol=1e-10)


@pytest.mark.parametrize("reading", READINGS)
def test_the_objective_is_that_of_the_dense_oracle(
    reading, rng, dense_problem, make_problem, make_graph, make_features
):
    x, graph = make_features(15, 4, rng), make_graph(15, rng)
    weights, prior = Weights(ridge=0.3), prior_graph(make_graph(15, rng), "binary")
    oracle = dense_problem(x, weights, reading, prior.toarray())
    objective = make_problem(x, weights, reading, prior=prior).objective
    assert np.isclose(
        float(objective(SparseAdjacency.from_scipy(graph))), oracle.value(graph.toarray())
    )


# WorkingProblem


@pytest.fixture
def working(rng, make_problem, all_pairs):
    def make(reading):
        weights = Weights(ridge=0.5, row_sums=1.0, loops=0.1)
        problem = make_problem(rng.standard_normal((25, 3)), weights, reading)
        return WorkingProblem.of(problem, all_pairs(25))

    return make


def random_dual(working, reading, seed):
    y = torch.randn(
        len(working.problem.target), generator=torch.Generator().manual_seed(seed)
    ).double()
    if reading == "frobenius":  # this part of the dual vector is a symmetric matrix
        part = working.problem.slices[0]
        square = y[part].view(3, 3)
        y[part] = (square + square.T).reshape(-1)
    return y


@pytest.mark.parametrize("reading", READINGS)
def test_gradient_is_that_of_finite_differences(reading, working):
    dual = working(reading)
    y, direction = 0.1 * random_dual(dual, reading, 0), random_dual(dual, reading, 1)
    values, _ = dual.evaluate(y)
    step = 1e-6
    slope = (dual.evaluate(y + step * direction)[1] - dual.evaluate(y - step * direction)[1]) / (
        2 * step
    )
    assert float(dual.gradient(y, values).dot(direction)) == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("reading", READINGS)
def test_the_violation_is_that_of_the_graph_implied_by_its_own_penalties(reading, working):
    dual = working(reading)
    y = 0.1 * random_dual(dual, reading, 0)
    values, _ = dual.evaluate(y)
    implied, _ = dual.evaluate((dual.apply(values) - dual.problem.target) / dual.inverse)
    assert float((values - implied).abs().max()) <= dual.violation(dual.gradient(y, values))
