"""Held-out predictions with a known answer, and nodes with a learned graph."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import softmax

from glnn.graph.prior import normalize_adjacency
from glnn.objective import Weights
from glnn.quality.explain import FittedNodes
from glnn.quality.metrics import ScoredPredictions
from glnn.solver import learn_graph
from glnn.solver.attribution import link_shares


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def drawn(rng):
    """Predictions that are true: each class is drawn from the predicted distribution."""

    def draw(n_nodes=400, n_classes=3):
        p = softmax(2 * rng.normal(size=(n_nodes, n_classes)), 1)
        classes = np.array([rng.choice(n_classes, p=row) for row in p])
        return ScoredPredictions(classes, p)

    return draw


@pytest.fixture(scope="session")
def fitted_nodes():
    """Thirty nodes on a graph learned from features, a given graph and predictions."""
    rng = np.random.default_rng(3)
    classes = np.arange(30) % 2
    features = rng.normal(size=(30, 6)) + 2 * classes[:, None]
    links = sp.triu(sp.random(30, 30, 0.2, random_state=3), 1, format="csr")
    probabilities = softmax(np.stack([-features[:, 0], features[:, 0]], 1), 1)
    weights = Weights(smoothness=0.3, sparsity=0.05, row_sums=0.1, loops=0.01, closeness=1.0)
    learned = learn_graph(features, links + links.T, weights=weights, predictions=probabilities)
    spread = normalize_adjacency(learned.adjacency).toarray()
    labels = np.where(np.arange(30) < 10, classes, -1)
    return FittedNodes(
        learned.adjacency,
        features,
        lambda signals: spread @ (spread @ signals),
        labels,
        np.arange(8),  # two labels more are known, but did not train
        probabilities,
        np.array(["no", "yes"]),
        tuple("abcdef"),
        link_shares(learned),
    )
