import numpy as np
import pytest

from glnn.quality.comparison import plain_scores
from glnn.quality.folds import stratified_folds
from glnn.quality.intervals import bootstrap_weights
from glnn.quality.metrics import Judged
from glnn.quality.plain import NodeProblem


@pytest.fixture
def table(rng):
    classes = np.arange(60) % 3
    x = np.eye(3)[classes] + 0.3 * rng.normal(size=(60, 3))
    labels = np.where(np.arange(60) < 40, classes, -1)
    return NodeProblem(x, None, labels, np.arange(40))


def test_plain_methods_are_judged_on_hidden_labels_alone(table, rng):
    folds = stratified_folds(table.labels, 4, seed=0)
    own = Judged(table.labels[:40], np.eye(3)[table.labels[:40]])
    weights = bootstrap_weights(40, rng)
    told = []
    names = ("majority", "logistic_regression")
    majority, logistic = plain_scores(table, folds, own, weights, names=names, watch=told.append)
    assert told == ["majority class", "logistic regression"]
    np.testing.assert_array_equal(majority.judged.classes, own.classes)
    assert majority.metrics["accuracy"].value < 0.5 < logistic.metrics["accuracy"].value
    gap = 1 - logistic.metrics["accuracy"].value
    assert logistic.difference.value == pytest.approx(gap)
