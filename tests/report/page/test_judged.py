import math

import numpy as np
import pytest

from glnn.quality.intervals import Interval
from glnn.quality.metrics import Judged
from glnn.report.page.data import Measure
from glnn.report.page.judged import estimated, measure_of, on_test_nodes
from glnn.report.page.numbers import measure
from glnn.report.tested import OnTestNodes, Score


@pytest.fixture
def judged():
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, 90)
    probabilities = rng.dirichlet(np.ones(3), 90) + 2 * np.eye(3)[classes] * (
        rng.random((90, 1)) < 0.8
    )
    return Judged(classes, probabilities / probabilities.sum(1, keepdims=True))


def shown_of(judged, others=()):
    tested = OnTestNodes.of(judged.classes, judged.probabilities, np.arange(3), 3, others)
    return on_test_nodes(tested, ["a", "b", "c"])


def test_the_confusion_matrix_counts_every_judged_node(judged):
    shown = shown_of(judged)
    np.testing.assert_array_equal(shown.confusion.sum(1), np.bincount(judged.classes))
    right = (judged.predicted == judged.classes).mean()
    assert np.trace(shown.confusion) / 90 == pytest.approx(right)
    assert shown.methods[0].accuracy.value == pytest.approx(right)


def test_bins_of_confidence_hold_every_node_and_their_mean_is_the_accuracy(judged):
    bins = shown_of(judged).reliability
    counts = np.array([n for _, _, n in bins])
    assert counts.sum() == 90
    right = np.array([share for _, share, _ in bins])
    assert counts @ right / 90 == pytest.approx((judged.predicted == judged.classes).mean())


def test_recall_is_the_diagonal_over_the_row(judged):
    shown = shown_of(judged)
    recalls = [one.recall.value for one in shown.classes]
    np.testing.assert_allclose(recalls, np.diag(shown.confusion) / shown.confusion.sum(1))


def test_of_no_node_there_is_no_share():
    classes = np.arange(30) % 2  # the third class has no node, the second is never predicted
    shown = shown_of(Judged(classes, np.tile([0.8, 0.1, 0.1], (30, 1))))
    first, second, third = shown.classes
    assert first.recall.value == 1.0 and first.precision.value == 0.5
    assert second.recall.value == 0.0 and second.recall.high < 1.0
    assert second.precision == Measure("precision", None)
    assert third.precision == Measure("precision", None)
    assert third.recall == Measure("recall", None)
    assert measure(third.recall) == "–"


def test_other_methods_stand_after_our_own(judged):
    other = Score("plain", 1.0, 0.0, probabilities=np.eye(3)[judged.classes], name="plain")
    shown = shown_of(judged, [other])
    assert [method.is_own for method in shown.methods] == [True, False]
    assert shown.methods[1].accuracy.value == 1.0
    assert shown.tone == "caution"


def test_what_is_not_known_is_left_out():
    assert measure_of("x", Interval(0.5, math.nan, math.nan)) == Measure("x", 0.5)


def test_a_class_without_a_label_has_an_empty_row_in_its_place(judged_run):
    estimate = judged_run[1].estimate
    names = [str(label) for label in estimate.classes]
    whole = estimated(estimate, names).confusion
    found = estimated(estimate, [names[0], "unseen", *names[1:]]).confusion
    assert not found[1].any() and not found[:, 1].any()
    kept = [0, 2, 3]
    np.testing.assert_array_equal(found[np.ix_(kept, kept)], whole)
