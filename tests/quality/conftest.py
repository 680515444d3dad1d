"""Held-out predictions with a known answer."""

import numpy as np
import pytest
from scipy.special import softmax

from glnn.quality.metrics import Judged


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def drawn(rng):
    """Predictions that are true: each class is drawn from the predicted distribution."""

    def draw(n_nodes=400, n_classes=3):
        p = softmax(2 * rng.normal(size=(n_nodes, n_classes)), 1)
        classes = np.array([rng.choice(n_classes, p=row) for row in p])
        return Judged(classes, p)

    return draw
