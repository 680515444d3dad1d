import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn import metrics as sk

from glnn.quality.metrics import (
    ScoredPredictions,
    accuracy_interval,
    bootstrap_weights,
    class_intervals,
    compute_metrics,
    metric_intervals,
    paired_difference,
    percentile_interval,
    reliability,
)

# Metrics

ROUTES = {
    "accuracy": lambda y, p, w: sk.accuracy_score(y, p.argmax(1), sample_weight=w),
    "balanced_accuracy": lambda y, p, w: sk.balanced_accuracy_score(
        y, p.argmax(1), sample_weight=w
    ),
    "macro_f1": lambda y, p, w: sk.f1_score(y, p.argmax(1), average="macro", sample_weight=w),
    "log_loss": lambda y, p, w: sk.log_loss(y, p, sample_weight=w),
    "brier": lambda y, p, w: sk.brier_score_loss(y, p, sample_weight=w),
}


@pytest.mark.parametrize("name", ROUTES)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_metric_is_that_of_scikit_learn_for_any_weights(name, n_classes, rng, drawn):
    judged = drawn(80, n_classes)
    weights = rng.integers(1, 4, size=(2, 80)).astype(float)
    for row, value in zip(weights, compute_metrics(judged, weights)[name]):
        assert value == pytest.approx(ROUTES[name](judged.classes, judged.probabilities, row))


def test_the_area_under_the_curve_is_that_of_scikit_learn_with_ties(rng, drawn):
    judged = drawn(60, 2)
    tied = ScoredPredictions(judged.classes, judged.probabilities.round(1))
    weights = rng.integers(1, 4, size=(3, 60)).astype(float)
    for row, value in zip(weights, compute_metrics(tied, weights)["auc"]):
        expected = sk.roc_auc_score(tied.classes, tied.probabilities[:, 1], sample_weight=row)
        assert value == pytest.approx(expected)


def test_precision_and_recall_are_those_of_scikit_learn(drawn):
    judged = drawn(80)
    found = class_intervals(judged)
    for name, score in (("precision", sk.precision_score), ("recall", sk.recall_score)):
        expected = score(judged.classes, judged.predicted, average=None)
        np.testing.assert_allclose([one[name].value for one in found], expected)


def test_certain_predictions_have_a_calibration_error_of_one_minus_their_accuracy():
    judged = ScoredPredictions(np.array([0, 0, 0, 1]), np.tile([1.0, 0.0], (4, 1)))
    assert compute_metrics(judged)["calibration_error"][0] == pytest.approx(0.25)


def test_bins_of_the_reliability_curve_average_to_accuracy_and_confidence(drawn):
    judged = drawn()
    curve = reliability(judged)
    share = curve["count"] / curve["count"].sum()
    assert curve["accuracy"] @ share == pytest.approx(compute_metrics(judged)["accuracy"][0])
    assert curve["confidence"] @ share == pytest.approx(judged.confidence.mean())


# Confidence intervals


@pytest.mark.parametrize(("n_right", "n_judged"), [(0, 10), (6, 14), (50, 60), (18, 18)])
def test_the_interval_of_an_accuracy_is_wilsons_for_half_as_many_nodes(n_right, n_judged):
    found = accuracy_interval(n_right, n_judged)
    expected = binomtest(n_right // 2, n_judged // 2).proportion_ci(method="wilson")
    assert found.value == n_right / n_judged
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_the_bootstrap_of_an_accuracy_is_as_wide_as_wilsons(rng, drawn):
    judged = drawn(600)
    weights = bootstrap_weights(600, rng)
    value = float(compute_metrics(judged)["accuracy"][0])
    drawn_interval = percentile_interval(value, compute_metrics(judged, weights)["accuracy"])
    closed = metric_intervals(judged, weights)["accuracy"]
    widths = [found.high - found.low for found in (drawn_interval, closed)]
    assert widths[0] == pytest.approx(widths[1], rel=0.1)


@pytest.mark.parametrize("seed", range(20))
def test_every_interval_holds_its_value(seed):
    rng = np.random.default_rng(seed)
    n_nodes, n_classes = int(rng.integers(1, 60)), int(rng.integers(2, 6))
    p = rng.dirichlet(np.full(n_classes, rng.choice([0.05, 0.5, 5])), n_nodes)
    truths = {
        "guessed": rng.integers(0, n_classes, n_nodes),
        "right": p.argmax(1),
        "wrong": p.argmin(1),
        "one class": np.zeros(n_nodes, dtype=np.int64),
    }
    for classes in truths.values():
        judged = ScoredPredictions(classes, p)
        found = metric_intervals(judged, bootstrap_weights(n_nodes, rng))
        per_class = [interval for one in class_intervals(judged) for interval in one.values()]
        for interval in (*found.values(), *per_class):
            undefined = np.isnan(interval.value)  # the area under the curve of one class
            assert undefined or interval.low <= interval.value <= interval.high


def test_true_probabilities_have_a_small_calibration_error_even_for_few_nodes(drawn):
    errors = [compute_metrics(drawn(40))["calibration_error"][0] for _ in range(50)]
    assert 0 <= np.mean(errors) < 0.03


def test_no_mistake_among_few_is_no_proof_that_there_is_none(rng):
    classes = np.arange(12) % 2
    judged = ScoredPredictions(classes, np.eye(2)[classes])
    found = metric_intervals(judged, bootstrap_weights(12, rng))
    for name in ("accuracy", "balanced_accuracy", "macro_f1", "auc"):
        assert found[name].value == found[name].high == 1
        assert found[name].low < 0.7
    assert all(i.low < 0.6 for by_class in class_intervals(judged) for i in by_class.values())
    unseen = ScoredPredictions(np.zeros(8, dtype=np.int64), np.tile([0.9, 0.1], (8, 1)))
    for interval in class_intervals(unseen)[1].values():
        assert (interval.value, interval.low, interval.high) == (0, 0, 1)


def test_differences_change_their_sign_with_their_order(rng, drawn):
    judged = drawn()
    other = ScoredPredictions(judged.classes, judged.probabilities[::-1])
    weights = bootstrap_weights(len(judged), rng)
    there, back = (
        paired_difference(judged, other, weights),
        paired_difference(other, judged, weights),
    )
    assert (there.value, there.low, there.high) == pytest.approx(
        (-back.value, -back.high, -back.low)
    )
    itself = paired_difference(judged, judged, weights)
    assert (itself.value, itself.low, itself.high) == (0, 0, 0)
