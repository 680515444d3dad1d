import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from glnn.objective import Weights
from glnn.solver.attribution import link_shares
from glnn.solver.learn import GraphRequest, solve_graph

READINGS = ("trace", "channel", "frobenius")
WEIGHTS = Weights(smoothness=0.4, sparsity=0.05, row_sums=0.3, loops=0.01, closeness=0.7, ridge=0.1)


def inputs(seed, n_nodes=25):
    rng = np.random.default_rng(seed)
    given = sp.triu(sp.random(n_nodes, n_nodes, 0.2, random_state=seed), 1, format="csr")
    predictions = rng.dirichlet(np.ones(3), n_nodes)
    task = (0.1 * rng.standard_normal((n_nodes, 2)), rng.standard_normal((n_nodes, 2)))
    return rng.standard_normal((n_nodes, 5)), given + given.T, predictions, task


def learned(seed, reading, make=np.asarray, **more):
    features, given, predictions, task = inputs(seed)
    options = {"weights": WEIGHTS, "predictions": predictions, "task": task}
    return solve_graph(GraphRequest(make(features), given, reading=reading, **(options | more)))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_matrix])
@pytest.mark.parametrize("reading", READINGS)
@pytest.mark.parametrize("seed", range(2))
def test_shares_of_all_terms_sum_to_the_weight_of_every_link(seed, reading, make):
    found = learned(seed, reading, make)
    shares = link_shares(found)
    assert found.adjacency.nnz > 100
    assert_allclose(shares.values.sum(1), found.adjacency.data, atol=1e-7)


@pytest.mark.parametrize("reading", READINGS)
def test_columns_of_the_features_sum_to_the_share_of_similarity(reading):
    features = inputs(0)[0]
    found = learned(0, reading)
    shares, adjacency = link_shares(found), found.adjacency
    for node in (0, 7, 24):
        row = slice(adjacency.indptr[node], adjacency.indptr[node + 1])
        columns = shares.column_shares(features[node], features[adjacency.indices[row]])
        smoothness = shares.values[row, shares.names.index("smoothness")]
        assert_allclose(columns.sum(1), smoothness, atol=1e-12)


def test_the_terms_of_the_trace_reading_are_those_of_the_closed_form():
    features = inputs(1)[0]
    found = learned(1, "trace", task=None)
    shares, adjacency = link_shares(found), found.adjacency
    rows = np.repeat(np.arange(25), np.diff(adjacency.indptr))
    columns, scale = adjacency.indices, 2 * (WEIGHTS.closeness + WEIGHTS.ridge)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    sums = np.asarray(adjacency.sum(1)).ravel()
    expected = {
        "closeness": 2 * WEIGHTS.closeness * np.asarray(found.prior[rows, columns]).ravel(),
        "smoothness": WEIGHTS.smoothness * (unit[rows] * unit[columns]).sum(1),
        "sparsity": np.full(len(rows), -WEIGHTS.sparsity),
        "row_sums": -WEIGHTS.row_sums * (sums[rows] + sums[columns] - 2),
        "loops": -2 * WEIGHTS.loops * adjacency.diagonal().sum() * (rows == columns),
    }
    for name, numerator in expected.items():
        assert_allclose(shares.values[:, shares.names.index(name)], numerator / scale, atol=1e-10)


def test_a_graph_that_is_the_prior_graph_owes_every_link_to_it():
    features, given, _, _ = inputs(4)
    none = (np.empty(0, np.int64), np.empty(0, np.int64))
    alone = Weights(smoothness=0.0, sparsity=0.0, row_sums=0.0, loops=0.0, closeness=1.0)
    options = {"weights": alone, "candidates": none, "support": "candidates"}
    found = solve_graph(GraphRequest(features, given, **options))
    shares = link_shares(found)
    assert shares.names == ("closeness",)
    assert (found.adjacency.indices == found.prior.indices).all()
    assert_allclose(shares.values[:, 0], found.prior.data)
