import numpy as np
import pytest

from glnn.data import NodeData, Split
from glnn.report.run_labels import class_numbers, hidden_labels, visible_labels


def named(*names):
    data = NodeData.from_arrays(np.eye(4), [0, 1, 2, 0], class_names=names)
    return data, Split(np.array([0, 1]), np.array([2]), np.array([3]), name="mine")


def test_only_labels_of_the_split_are_seen():
    data, split = named("a", "b", "c")
    assert visible_labels(data, split).tolist() == ["a", "b", "c", ""]
    whole, split = named("7", "10", "2")
    assert visible_labels(whole, split).tolist() == [7, 10, 2, -1]


@pytest.mark.parametrize("names", [("7", "10", "2"), ("b", "a", "c"), ("1", "02", "x")])
def test_columns_of_the_estimator_are_found_in_the_data(names):
    data, split = named(*names)
    seen = visible_labels(data, split)[:3]
    classes = np.unique(seen)
    numbers = class_numbers(data, classes)
    assert [data.class_names[number] for number in numbers] == [str(c) for c in classes]


def test_every_label_is_seen_or_hidden():
    data, split = named("a", "b", "c")
    assert hidden_labels(data, split).tolist() == [-1, -1, -1, 0]
