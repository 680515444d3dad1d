import dataclasses

import numpy as np
import scipy.sparse as sp

from glnn_lab.baselines import BASELINES
from glnn_lab.baselines.gcn_jaccard import alike


def test_edges_are_kept_by_the_sets_of_their_ends(blocks):
    problem, _, _ = blocks
    sets = [set(np.flatnonzero(row)) for row in problem.features.toarray()]
    kept = alike(problem.graph, problem.features, 0.2).toarray() > 0
    for i, j in zip(*sp.triu(problem.graph).nonzero()):
        share = len(sets[i] & sets[j]) / len(sets[i] | sets[j])
        assert kept[i, j] == kept[j, i] == (share >= 0.2)


def test_it_is_a_gcn_on_those_edges(blocks, shortened):
    problem, _, _ = blocks
    settings = dataclasses.replace(BASELINES["gcn_jaccard"].settings, threshold=0.2)
    method = dataclasses.replace(BASELINES["gcn_jaccard"], settings=settings)
    graph = alike(problem.graph, problem.features, 0.2)
    direct = dataclasses.replace(problem, graph=graph)
    found, expected = (
        shortened(m, n_epochs=5).fit_predict(p, seed=0).probabilities
        for m, p in ((method, problem), (BASELINES["gcn"], direct))
    )
    np.testing.assert_allclose(found, expected)
