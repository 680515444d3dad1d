import numpy as np
import pytest

from glnn.engine.labels import encode_labels
from glnn.quality.labels import labelled_rows, named_labels, without

KINDS = [
    [3, 8, -1, 8],
    ["ant", "bee", "", "bee"],
    [0.0, 1.0, np.nan, 1.0],
    np.array([True, False, None, False], dtype=object),
]


@pytest.mark.parametrize("y", KINDS)
def test_encoding_named_labels_gives_the_class_numbers_back(y):
    classes, encoded = encode_labels(y, 4)
    again, numbers = encode_labels(named_labels(classes, encoded), 4)
    np.testing.assert_array_equal(numbers, encoded)
    assert again.tolist() == classes.tolist()


@pytest.mark.parametrize("y", KINDS)
def test_a_hidden_label_is_no_label(y):
    classes, encoded = encode_labels(y, 4)
    shown = without(classes, encoded, np.array([3]))
    np.testing.assert_array_equal(labelled_rows(shown), [True, True, False, False])
    assert encoded[3] >= 0  # the given ones are left as they are
