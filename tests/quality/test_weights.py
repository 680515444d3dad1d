import numpy as np
import pytest
from sklearn.utils.class_weight import compute_sample_weight

from glnn.exceptions import InputError
from glnn.quality.weights import class_weights, label_weights

CLASSES = np.array(["a", "b", "c"])
ENCODED = np.array([0, 0, 0, 1, 1, 2, -1])


@pytest.mark.parametrize("how", ["balanced", {"a": 0.5, "c": 3.0}])
def test_weights_of_labels_are_those_of_scikit_learn(how):
    found = label_weights(how, None, CLASSES, ENCODED)[:6]
    np.testing.assert_allclose(found, compute_sample_weight(how, CLASSES[ENCODED[:6]]))


def test_balanced_classes_weigh_the_same_in_total():
    weights = label_weights("balanced", None, CLASSES, ENCODED)
    totals = [weights[number == ENCODED].sum() for number in range(3)]
    np.testing.assert_allclose(totals, 2)


def test_sample_weights_multiply_class_weights():
    own = np.arange(1.0, 8.0)
    both = label_weights("balanced", own, CLASSES, ENCODED)
    one = label_weights("balanced", None, CLASSES, ENCODED)
    np.testing.assert_allclose(both, own * one)


def test_no_weights_are_nothing():
    assert class_weights(None, CLASSES, ENCODED) is None
    assert label_weights(None, None, CLASSES, ENCODED) is None


@pytest.mark.parametrize(
    ("how", "own", "message"),
    [
        ("even", None, "'balanced' or a dictionary"),
        ({"z": 2.0}, None, "must name labels of y, got 'z'"),
        ({"a": -1.0}, None, "at least 0"),
        (None, [1.0, 2.0], "one weight for each"),
        (None, np.zeros(7), "a label that counts"),
    ],
)
def test_wrong_weights_are_refused(how, own, message):
    with pytest.raises(InputError, match=message):
        label_weights(how, own, CLASSES, ENCODED)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_a_bad_weight_is_named_with_its_row(bad):
    weights = np.ones(4)
    weights[2] = bad
    with pytest.raises(InputError, match=f"got {bad:g} in row 2"):
        label_weights(None, weights, np.array([0, 1]), np.array([0, 1, 0, -1]))


def test_weights_that_are_no_numbers_are_refused():
    with pytest.raises(InputError, match="sample_weight must hold numbers"):
        label_weights(None, ["much", "little"], np.array([0, 1]), np.array([0, 1]))
