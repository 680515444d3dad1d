import numpy as np
import pytest

from glnn.engine.probe import spread_rows
from glnn.graph.prior import prior_graph
from glnn.parallel.probe import spread_features
from glnn.peers import Partition


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_spread_features_are_those_of_the_whole_graph(words, together, kind):
    features, graph, _ = words
    given = features if kind == "sparse" else features.toarray()
    adjacency = prior_graph(graph, "renormalized")
    nodes = np.array([3, 149, 77, 12])
    expected = (spread_rows(adjacency, nodes) @ features).toarray()

    def work(peers):
        part = Partition(150, peers)
        return spread_features(part, adjacency[part.rows], given[part.rows], nodes)

    for found in together(3, work):
        np.testing.assert_allclose(found, expected, atol=1e-9)
