import numpy as np
import pytest
from scipy.stats import binomtest

from glnn.quality.intervals import (
    accuracy_interval,
    bootstrap_weights,
    class_intervals,
    metric_intervals,
    paired_difference,
    percentile_interval,
    wilson_interval,
)
from glnn.quality.metrics import Judged, measured


@pytest.mark.parametrize(("n_right", "n_judged"), [(0, 5), (3, 7), (50, 60), (9, 9)])
def test_wilson_is_that_of_scipy(n_right, n_judged):
    found = wilson_interval(n_right, n_judged)
    expected = binomtest(n_right, n_judged).proportion_ci(method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_interval_of_an_accuracy_is_that_of_half_as_many_nodes():
    whole, half = accuracy_interval(40, 60), wilson_interval(20, 30)
    assert (whole.low, whole.high) == (half.low, half.high)
    assert whole.value == 40 / 60


def test_a_bootstrap_sample_has_half_as_many_nodes(rng):
    weights = bootstrap_weights(40, rng)
    assert set(weights.sum(1)) == {20}
    assert weights.mean() == pytest.approx(0.5)


def test_the_bootstrap_of_an_accuracy_is_as_wide_as_wilsons(rng, drawn):
    judged = drawn(600)
    weights = bootstrap_weights(600, rng)
    value = float(measured(judged)["accuracy"][0])
    drawn_interval = percentile_interval(value, measured(judged, weights)["accuracy"])
    closed = metric_intervals(judged, weights)["accuracy"]
    assert drawn_interval.half_width == pytest.approx(closed.half_width, rel=0.1)


def test_intervals_hold_their_values(rng, drawn):
    judged = drawn()
    weights = bootstrap_weights(len(judged), rng)
    per_class = [interval for found in class_intervals(judged) for interval in found.values()]
    for interval in [*metric_intervals(judged, weights).values(), *per_class]:
        assert interval.low <= interval.value <= interval.high or interval.value < 0.1


def test_precision_and_recall_are_the_metrics_with_an_interval_of_shares(drawn):
    judged = drawn()
    values = measured(judged)
    for c, found in enumerate(class_intervals(judged)):
        assert found["precision"].value == pytest.approx(values["precision"][0, c])
        assert found["recall"].value == pytest.approx(values["recall"][0, c])
        n_nodes = int((judged.classes == c).sum())
        n_right = int(((judged.classes == c) & (judged.predicted == c)).sum())
        assert found["recall"] == accuracy_interval(n_right, n_nodes)


def test_no_mistake_among_few_is_no_proof_that_there_is_none(rng):
    classes = np.arange(12) % 2
    judged = Judged(classes, np.eye(2)[classes])
    found = metric_intervals(judged, bootstrap_weights(12, rng))
    for name in ("accuracy", "balanced_accuracy", "macro_f1", "auc"):
        assert found[name].value == found[name].high == 1
        assert found[name].low < 0.7
    assert all(i.low < 0.6 for by_class in class_intervals(judged) for i in by_class.values())


def test_a_class_that_was_not_judged_may_have_any_recall():
    judged = Judged(np.zeros(8, dtype=np.int64), np.tile([0.9, 0.1], (8, 1)))
    for interval in class_intervals(judged)[1].values():
        assert (interval.value, interval.low, interval.high) == (0, 0, 1)


def test_the_difference_of_a_method_to_itself_is_nothing(rng, drawn):
    judged = drawn()
    found = paired_difference(judged, judged, bootstrap_weights(len(judged), rng))
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_differences_change_their_sign_with_their_order(rng, drawn):
    judged = drawn()
    other = Judged(judged.classes, judged.probabilities[::-1])
    weights = bootstrap_weights(len(judged), rng)
    there, back = (
        paired_difference(judged, other, weights),
        paired_difference(other, judged, weights),
    )
    assert (there.value, there.low, there.high) == pytest.approx(
        (-back.value, -back.high, -back.low)
    )
