import numpy as np
import pytest
from scipy.special import softmax

from glnn.quality import calibration
from glnn.quality.calibration import fit_calibration, shrink_class_shares
from glnn.quality.metrics import ScoredPredictions, compute_metrics


def overconfident(judged, factor):
    return softmax(factor * np.log(judged.probabilities), 1)


def loss(probabilities, classes):
    return compute_metrics(ScoredPredictions(classes, probabilities))["log_loss"][0]


def test_the_temperature_that_spoiled_true_probabilities_is_found(drawn):
    judged = drawn(900)
    found = fit_calibration(overconfident(judged, 5.0), judged.classes)
    assert found.exponent == pytest.approx(1 / 5, rel=0.15)
    assert found.mixture < 0.05


def test_uneven_noise_gets_uneven_shares(rng):
    certain = softmax(20 * rng.normal(size=(400, 2)), 1)
    classes = (rng.random(400) < 0.2).astype(int)
    calibrated = fit_calibration(certain, classes).apply(certain)
    assert calibrated[:, 0].mean() == pytest.approx((classes == 0).mean(), abs=0.05)


def test_calibration_lowers_the_loss_on_other_nodes(drawn):
    judged = drawn(800)
    raw = overconfident(judged, 6.0)
    found = fit_calibration(raw[:400], judged.classes[:400])
    after = loss(found.apply(raw[400:]), judged.classes[400:])
    assert after < loss(raw[400:], judged.classes[400:])
    assert after == pytest.approx(loss(judged.probabilities[400:], judged.classes[400:]), rel=0.05)


def test_few_labels_change_little(rng):
    raw = softmax(3 * rng.normal(size=(300, 3)), 1)
    right, wrong = raw[:10].argmax(1), raw[:10].argmin(1)
    all_right = fit_calibration(raw[:10], right)
    half_right = fit_calibration(raw[:10], np.where(np.arange(10) < 5, right, wrong))
    assert all_right.apply(raw).max(1).mean() < raw.max(1).mean() + 0.05
    assert 0.1 < half_right.exponent < calibration._PRIOR_MEAN[0] < all_right.exponent < 1.5


def test_the_standard_error_is_the_spread_over_draws_of_the_labels(rng):
    found = []
    for _ in range(25):
        p = softmax(2 * rng.normal(size=(200, 3)), 1)
        classes = (rng.random((200, 1)) > np.cumsum(p, 1)[:, :-1]).sum(1)
        one = fit_calibration(p, classes)
        found.append((one.confidence - p.max(1).mean(), one.confidence_error))
    gaps, errors = np.array(found).T
    assert errors.mean() == pytest.approx(gaps.std(), rel=0.5)
    assert abs(gaps.mean()) < errors.mean()


def test_a_label_that_counts_twice_is_two_labels(drawn):
    judged = drawn(60)
    raw, classes = overconfident(judged, 4.0), judged.classes
    twice = np.concatenate([np.arange(60), np.arange(30)])
    weights = np.where(np.arange(60) < 30, 2.0, 1.0)
    weighted, repeated = (
        fit_calibration(raw, classes, weights),
        fit_calibration(raw[twice], classes[twice]),
    )
    np.testing.assert_allclose(weighted.apply(raw), repeated.apply(raw), atol=0.03)


def test_no_labels_leave_every_bit(drawn):
    raw = drawn().probabilities
    found = fit_calibration(raw[:0], np.empty(0, np.int64))
    assert found.is_identity
    assert found.apply(raw) is raw


def test_one_label_is_enough_for_a_calibration(drawn):
    found = fit_calibration(drawn().probabilities[:1], np.zeros(1, np.int64))
    assert found.n_labels == 1 and np.isfinite(found.confidence_error)


def test_shares_that_labels_prove_are_kept_and_no_class_is_impossible():
    shares = shrink_class_shares(np.array([800, 200, 0]))
    np.testing.assert_allclose(shares, [0.8, 0.2, 0.0], atol=5e-3)
    assert shares.min() > 0
    assert shares.sum() == pytest.approx(1)
