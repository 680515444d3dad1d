import numpy as np
import pytest
from numpy.testing import assert_allclose

from glnn.quality.metrics import Judged
from glnn.quality.shares import note_on_shares, shares_elsewhere

NAMES = np.array(["a", "b", "c"])


def of_true_shares(shares, n_rows, rng):
    """Three clouds on a line with these shares; posteriors as if classes were equally frequent."""
    classes = rng.choice(3, n_rows, p=shares)
    x = rng.normal(size=n_rows) + 2 * classes
    likelihood = np.exp(-0.5 * np.square(x[:, None] - 2 * np.arange(3)))
    return classes, likelihood / likelihood.sum(1, keepdims=True)


def test_shares_are_found_from_probabilities_that_assume_others(rng):
    truth = np.array([0.7, 0.2, 0.1])
    classes, q = of_true_shares(truth, 20_000, rng)
    found = shares_elsewhere(q, np.full(3, 1 / 3))
    assert_allclose(found, np.bincount(classes) / 20_000, atol=0.02)
    assert found.sum() == pytest.approx(1)


def test_probabilities_that_know_nothing_change_no_share():
    shares = np.array([0.5, 0.3, 0.2])
    assert_allclose(shares_elsewhere(np.tile(shares, (50, 1)), shares), shares)


def test_the_line_weights_recall_by_the_shares_elsewhere(rng):
    classes, q = of_true_shares(np.full(3, 1 / 3), 3000, rng)
    judged = Judged(classes, q)
    truth = np.array([0.8, 0.1, 0.1])
    others, elsewhere = of_true_shares(truth, 20_000, rng)
    (line,) = note_on_shares(judged, elsewhere, NAMES)
    accuracy = (elsewhere.argmax(1) == others).mean()
    assert abs(float(line.split("(a about ")[1].split(" ")[0]) / 100 - 0.8) < 0.02
    assert abs(float(line.split()[-2]) / 100 - accuracy) < 0.02


def test_nothing_is_said_where_shares_are_alike_or_no_row_is_left(rng):
    classes, q = of_true_shares(np.full(3, 1 / 3), 3000, rng)
    judged = Judged(classes, q)
    assert note_on_shares(judged, of_true_shares(np.full(3, 1 / 3), 3000, rng)[1], NAMES) == []
    assert note_on_shares(judged, q[:0], NAMES) == []
