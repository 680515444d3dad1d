import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.exceptions import InputError, ProblemError
from glnn.graph import prior_graph
from glnn.objective import Weights
from glnn.solver import learn_graph

WITH_PRIOR = Weights(sparsity=0.05, row_sums=0.3, loops=0.01, closeness=1.0, ridge=0.1)
NO_PRIOR = Weights(sparsity=0.05, row_sums=0.3, loops=0.01, closeness=0.0, ridge=0.5)


@pytest.mark.parametrize("row_sums", [0.3, 0.0])
@pytest.mark.parametrize("with_prior", [True, False])
def test_a_new_row_minimises_the_whole_objective(
    with_prior, row_sums, rng, dense_problem, find_new_row, make_graph, make_features
):
    x, graph = make_features(31, 4, rng), make_graph(30, rng)
    weights = (WITH_PRIOR if with_prior else NO_PRIOR).replace(row_sums=row_sums)
    learned = learn_graph(x[:30], graph if with_prior else None, weights=weights)
    links = (rng.random((1, 30)) < 0.1).astype(float) if with_prior else None
    found = learned.connect(x[30:], links)
    signal = x / np.linalg.norm(x, axis=1)[:, None]
    prior = None
    if with_prior:
        enlarged = sp.bmat([[graph, links.T], [links, None]], format="csr")
        prior = prior_graph(enlarged, "renormalized").toarray()
    best, value = find_new_row(dense_problem(signal, weights, "trace", prior), learned)
    row = np.append(found.links.toarray()[0], found.loops[0])
    assert np.abs(row - best).max() < 1e-6
    assert value(row) <= value(best) + 1e-10
    assert (row > 0).any()


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("support", ["all", "candidates"])
@pytest.mark.parametrize("reading", ["trace", "channel", "frobenius"])
def test_a_row_does_not_depend_on_the_other_rows(sparse, support, reading, rng, make_features):
    x = make_features(200, 6, rng, sparse=sparse)
    weights = NO_PRIOR
    learned = learn_graph(
        x[:100], weights=weights, support=support, reading=reading, n_candidates=5
    )
    together = learned.connect(x[100:])
    for k in (0, 63, 64, 99):
        alone = learned.connect(x[100 + k : 101 + k])
        assert together.links[k].toarray().tobytes() == alone.links.toarray().tobytes()
        assert together.loops[k] == alone.loops[0]


def test_with_candidates_only_the_most_similar_nodes_are_joined(rng, make_features):
    x = make_features(60, 4, rng)
    learned = learn_graph(x[:50], weights=NO_PRIOR, support="candidates", n_candidates=3)
    links = learned.connect(x[50:]).links
    assert np.diff(links.indptr).max() <= 3
    signal = x / np.linalg.norm(x, axis=1)[:, None]
    best = np.argsort(-(signal[50:] @ signal[:50].T), axis=1)[:, :3]
    for k in range(10):
        assert set(links[k].indices) <= set(best[k])


def test_bad_new_rows_are_refused(rng, make_features):
    learned = learn_graph(make_features(30, 4, rng), n_neighbors=3)
    share = dataclasses.replace(learned.new_rows.share, edge_curvature=0.0)
    flat = dataclasses.replace(learned.new_rows, share=share)
    with pytest.raises(InputError, match="the 4 columns"):
        learned.connect(np.ones((2, 3)))
    with pytest.raises(InputError, match="links must be None"):
        learned.connect(np.ones((2, 4)), links=np.ones((2, 30)))
    with pytest.raises(ProblemError, match="new_row"):
        flat.connect(np.ones((1, 4)))
