import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import DataConversionWarning

from glnn.engine.labels import decode_classes, encode_classes, encode_labels
from glnn.exceptions import InputError


@pytest.mark.parametrize(
    ("y", "classes", "numbers"),
    [
        ([3, -1, 7, 3], [3, 7], [0, -1, 1, 0]),
        ([3.0, np.nan, 7.0, -1.0], [3.0, 7.0], [0, -1, 1, -1]),
        (["b", "", "a", "-1"], ["a", "b"], [1, -1, 0, -1]),
        (np.array(["b", None, "a", np.nan], dtype=object), ["a", "b"], [1, -1, 0, -1]),
        ([True, False, True, True], [False, True], [1, 0, 1, 1]),
        ([" loyal", "loyal ", "lost", " "], ["lost", "loyal"], [1, 1, 0, -1]),
        (["loyal", " loyal", None, "lost"], ["lost", "loyal"], [1, 1, -1, 0]),
        ([3, None, np.int64(7), 3], [3, 7], [0, -1, 1, 0]),
        (pd.Series([3, pd.NA, 7, 3], dtype="Int64"), [3, 7], [0, -1, 1, 0]),
        (["b", pd.NA, "a", "b"], ["a", "b"], [1, -1, 0, 1]),
    ],
)
def test_classes_are_sorted_and_unlabelled_rows_are_minus_one(y, classes, numbers):
    found, encoded = encode_labels(y, 4)
    assert found.tolist() == classes
    assert encoded.tolist() == numbers


def test_a_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        _, encoded = encode_labels(np.array([[0], [1], [-1], [1]]), 4)
    assert encoded.tolist() == [0, 1, -1, 1]


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([-1, -1, -1], "no label at all"),
        ([2, -1, 2], "one class only"),
        ([0, 1], "one label for each of the 3 rows"),
        ([0.5, 1.2, 3.1], "Unknown label type"),
        ([0.0, np.inf, 1.0], "infinity"),
        (np.array([1, "a", 2], dtype=object), "one sortable type"),
        (np.array(["2020-01-01"] * 3, dtype="datetime64[D]"), "whole numbers or text"),
    ],
)
def test_bad_labels_are_refused_in_one_line(y, words):
    with pytest.raises(InputError, match=words) as caught:
        encode_labels(y, 3)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "classes", [np.array([0, 5]), np.array(["a", "b"]), np.array([False, True]), np.array([0.5, 2])]
)
def test_classes_survive_json(classes):
    again = decode_classes(encode_classes(classes))
    assert again.tolist() == classes.tolist()
    assert again.dtype.kind == classes.dtype.kind


def test_numbers_beside_gaps_can_be_saved():
    classes, _ = encode_labels([3, None, np.int64(7), 3], 4)
    assert encode_classes(classes) == {"kind": "integer", "values": [3, 7]}


def test_a_single_class_is_named_as_its_user_wrote_it():
    with pytest.raises(InputError, match=r"one class only \(1\)\. -1 marks unlabelled rows"):
        encode_labels(np.array([1, -1, 1]), 3)


def test_classes_that_json_cannot_hold_are_refused():
    with pytest.raises(InputError, match="numbers or text"):
        encode_classes(np.array([(1, 2), None], dtype=object))
