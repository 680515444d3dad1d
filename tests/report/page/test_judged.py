import math

import numpy as np
import pytest

from glnn.quality.intervals import Interval
from glnn.quality.metrics import Judged
from glnn.report.page.data import Measure, Method
from glnn.report.page.judged import measure_of, on_test_nodes


@pytest.fixture
def judged():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 90)
    probabilities = rng.dirichlet(np.ones(3), 90) + 2 * np.eye(3)[classes] * (
        rng.random((90, 1)) < 0.8
    )
    return Judged(classes, probabilities / probabilities.sum(1, keepdims=True))


def test_the_confusion_matrix_counts_every_judged_node(judged):
    shown = on_test_nodes(judged, ["a", "b", "c"])
    np.testing.assert_array_equal(shown.confusion.sum(1), np.bincount(judged.classes))
    right = (judged.predicted == judged.classes).mean()
    assert np.trace(shown.confusion) / 90 == pytest.approx(right)
    assert shown.methods[0].accuracy.value == pytest.approx(right)


def test_bins_of_confidence_hold_every_node_and_their_mean_is_the_accuracy(judged):
    bins = on_test_nodes(judged, ["a", "b", "c"]).reliability
    counts = np.array([n for _, _, n in bins])
    assert counts.sum() == 90
    right = np.array([share for _, share, _ in bins])
    assert counts @ right / 90 == pytest.approx((judged.predicted == judged.classes).mean())


def test_recall_is_the_diagonal_over_the_row(judged):
    shown = on_test_nodes(judged, ["a", "b", "c"])
    recalls = [one.recall.value for one in shown.classes]
    np.testing.assert_allclose(recalls, np.diag(shown.confusion) / shown.confusion.sum(1))


def test_other_methods_stand_after_our_own(judged):
    other = Method("plain", Measure("accuracy", 0.5))
    shown = on_test_nodes(judged, ["a", "b", "c"], [other])
    assert [method.is_own for method in shown.methods] == [True, False]


def test_what_is_not_known_is_left_out():
    assert measure_of("x", Interval(0.5, math.nan, math.nan)) == Measure("x", 0.5)
