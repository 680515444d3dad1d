import numpy as np
import pytest
import scipy.sparse as sp

from glnn.engine.fit_problem import FitProblem
from glnn.engine.tasks import Labels


def make_blocks():
    """Two communities of 30 with words of their own: features, graph, classes."""
    rng = np.random.default_rng(0)
    classes = np.arange(60) % 2
    same = classes[:, None] == classes[None]
    upper = np.triu(rng.random((60, 60)) < np.where(same, 0.25, 0.02), 1)
    graph = sp.csr_matrix((upper | upper.T).astype(np.float64))
    words = rng.random((60, 20)) < np.where(np.arange(20)[None] % 2 == classes[:, None], 0.5, 0.1)
    return sp.csr_matrix(words.astype(np.float32)), graph, classes


@pytest.fixture
def blocks():
    return make_blocks()


@pytest.fixture(scope="session")
def make_problem():
    """Return a function that makes the problem of the blocks anew: some tests change it."""

    def make():
        features, graph, classes = make_blocks()
        train, validation = np.arange(8), np.arange(8, 28)
        chosen = Labels(validation, classes[validation], 60, 2)
        return FitProblem(features, Labels(train, classes[train], 60, 2), graph, chosen)

    return make


@pytest.fixture
def problem(make_problem):
    return make_problem()
