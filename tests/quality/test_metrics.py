import numpy as np
import pytest
from sklearn import metrics as sk

from glnn.quality.metrics import Judged, confusion, measured, reliability

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
    for row, value in zip(weights, measured(judged, weights)[name]):
        assert value == pytest.approx(ROUTES[name](judged.classes, judged.probabilities, row))


def test_the_area_under_the_curve_is_that_of_scikit_learn_with_ties(rng, drawn):
    judged = drawn(60, 2)
    tied = Judged(judged.classes, judged.probabilities.round(1))
    weights = rng.integers(1, 4, size=(3, 60)).astype(float)
    for row, value in zip(weights, measured(tied, weights)["auc"]):
        expected = sk.roc_auc_score(tied.classes, tied.probabilities[:, 1], sample_weight=row)
        assert value == pytest.approx(expected)


def test_precision_recall_and_confusion_are_those_of_scikit_learn(drawn):
    judged = drawn(80)
    found = measured(judged)
    y, predicted = judged.classes, judged.predicted
    np.testing.assert_allclose(
        found["precision"][0], sk.precision_score(y, predicted, average=None)
    )
    np.testing.assert_allclose(found["recall"][0], sk.recall_score(y, predicted, average=None))
    table = confusion(judged, np.ones((1, len(judged))))[0]
    np.testing.assert_array_equal(table, sk.confusion_matrix(y, predicted))


def test_a_class_that_is_not_judged_takes_no_part_in_means():
    judged = Judged(np.array([0, 1]), np.array([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]]))
    found = measured(judged)
    assert found["balanced_accuracy"][0] == found["macro_f1"][0] == 1
    assert np.isnan(found["recall"][0, 2])


def test_certain_predictions_have_a_calibration_error_of_one_minus_their_accuracy():
    judged = Judged(np.array([0, 0, 0, 1]), np.tile([1.0, 0.0], (4, 1)))
    assert measured(judged)["calibration_error"][0] == pytest.approx(0.25)


def test_bins_of_the_reliability_curve_average_to_accuracy_and_confidence(drawn):
    judged = drawn()
    curve = reliability(judged)
    share = curve["count"] / curve["count"].sum()
    assert curve["accuracy"] @ share == pytest.approx(measured(judged)["accuracy"][0])
    assert curve["confidence"] @ share == pytest.approx(judged.confidence.mean())
