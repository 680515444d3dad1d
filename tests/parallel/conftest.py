import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.engine.classifier import Labels
from glnn.engine.problem import FitProblem
from glnn.engine.trainer import Validation


@pytest.fixture
def symmetric():
    """A random symmetric CSR matrix with loops, and some rows without entries."""
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((83, 83)) * (rng.random((83, 83)) < 0.08))
    dense[[5, 40], :] = dense[:, [5, 40]] = 0
    return sp.csr_matrix(dense + np.triu(dense, 1).T)


@pytest.fixture
def words():
    """Bags of words with a graph: features, graph, classes."""
    rng = np.random.default_rng(1)
    classes = np.arange(150) % 3
    same = classes[:, None] == classes[None]
    upper = np.triu(rng.random((150, 150)) < np.where(same, 0.08, 0.01), 1)
    graph = sp.csr_matrix((upper | upper.T).astype(np.float64))
    likely = np.arange(45)[None] % 3 == classes[:, None]
    counts = rng.random((150, 45)) < np.where(likely, 0.3, 0.08)
    return sp.csr_matrix(counts.astype(np.float32)), graph, classes


@pytest.fixture
def load(words):
    """What loads the whole problem of the bags of words."""
    features, graph, classes = words
    chosen = Validation(torch.arange(30, 60), torch.from_numpy(classes[30:60]))

    def loaded():
        labels = Labels(np.arange(30), classes[:30], 150, 3)
        return FitProblem(features.copy(), labels, graph, chosen)

    return loaded
