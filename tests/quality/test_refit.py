import numpy as np
import pytest
from numpy.testing import assert_array_equal

from glnn import GLNNClassifier
from glnn.quality.refit import refitted

NOBODY = np.empty(0, dtype=np.int64)


def fitted(**options):
    rng = np.random.default_rng(0)
    classes = np.arange(30) % 3
    X = rng.standard_normal((30, 4)) + classes[:, None]
    y = np.where(np.arange(30) < 12, classes, -1)
    y[[2, 5, 8]] = -1  # so that the last class trains on row 11 alone
    model = GLNNClassifier("paper", n_epochs=5, random_state=4, **options)
    return model.fit(X, y), (X, y, None, None)


@pytest.mark.parametrize("calibrate", [None, "auto"])
def test_nothing_hidden_is_the_same_fit(calibrate):
    model, told = fitted(calibrate=calibrate)
    again = refitted(model, told, model._record, NOBODY, model.seed_, calibrate=calibrate)
    assert_array_equal(again, model.label_distributions_)


def test_without_a_calibration_probabilities_are_raw():
    model, told = fitted(calibrate="auto")
    again = refitted(model, told, model._record, NOBODY, model.seed_)
    assert_array_equal(again, model.raw_distributions_)


def test_labels_that_are_hidden_are_not_seen():
    model, told = fitted(calibrate=None)
    X, y, *_ = told
    fewer = np.where(np.isin(np.arange(30), [0, 7]), -1, y)
    other = GLNNClassifier("paper", n_epochs=5, random_state=9, calibrate=None).fit(X, fewer)
    again = refitted(model, told, model._record, np.array([0, 7]), 9)
    assert_array_equal(again, other.label_distributions_)
    assert (model._record.labels[[0, 7]] == [0, 1]).all()  # the record is as it was


@pytest.mark.parametrize("class_weight", [None, {0: 1.0, 1: 2.0, 2: 3.0}])
def test_a_class_without_labels_has_no_probability(class_weight):
    model, told = fitted(calibrate=None, class_weight=class_weight)
    again = refitted(model, told, model._record, np.array([11]), model.seed_)
    assert_array_equal(again[:, 2], 0)
    np.testing.assert_allclose(again[:, :2].sum(1), 1, atol=1e-6)


def test_validation_nodes_of_a_class_without_labels_take_no_part():
    rows = np.array([9, 10, 11])
    model, told = fitted(calibrate=None)
    X, y, *_ = told
    y = y.copy()
    y[14] = 2
    model.fit(X, y, validation=rows)
    told = (X, y, None, rows)
    again = refitted(model, told, model._record, np.array([14]), model.seed_)
    y[[11, 14]] = -1
    other = GLNNClassifier("paper", n_epochs=5, random_state=4, calibrate=None)
    other.fit(X, y, validation=rows[:2])
    assert_array_equal(again[:, :2], other.label_distributions_)


def test_the_only_class_left_is_certain():
    model, told = fitted(calibrate=None)
    hidden = np.flatnonzero((told[1] == 0) | (told[1] == 2))
    again = refitted(model, told, model._record, hidden, model.seed_)
    assert_array_equal(again, np.tile([0.0, 1.0, 0.0], (30, 1)))
