import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.exceptions import DataConversionWarning

from glnn.data.labels import encode_targets, make_folds, warn_of_class_minus_one
from glnn.engine.fit_problem import FitProblem, hide_labels
from glnn.engine.tasks import Labels
from glnn.exceptions import InputError

# Class numbers


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
        (["b", np.nan, "a", "b"], ["a", "b"], [1, -1, 0, 1]),
        (np.array(["b", np.nan, "a", "b"]), ["a", "b"], [1, -1, 0, 1]),
    ],
)
def test_classes_are_sorted_and_unlabelled_rows_are_minus_one(y, classes, numbers):
    found, encoded = encode_targets(y, 4)
    assert found.tolist() == classes
    assert encoded.tolist() == numbers


def test_a_column_of_labels_is_taken_with_a_warning():
    with pytest.warns(DataConversionWarning, match="column-vector"):
        _, encoded = encode_targets(np.array([[0], [1], [-1], [1]]), 4)
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
        ([("a", "b"), None, ("a",)], "one label for each row"),
    ],
)
def test_bad_labels_are_refused_in_one_line(y, words):
    with pytest.raises(InputError, match=words) as caught:
        encode_targets(y, 3)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("y", "warns"),
    [
        ([-1, 0, 1, 1, 0, -1], True),
        (np.array([-1.0, 0.0, 1.0]), True),
        (pd.Series([-1, 0, 1]), True),
        ([-1, -1, -1, 0, 1], False),  # most rows have no label, as usual
        ([None, 0, 1], False),
        ([-1, 0, 1, 2], False),
        (["-1", "0", "1"], False),
        (torch.tensor([-1, 0, 1]), False),
    ],
    ids=str,
)
def test_a_class_minus_one_is_not_lost_without_a_word(y, warns):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warn_of_class_minus_one(y)
    assert len(caught) == warns
    assert all("'no label'" in str(one.message) for one in caught)


# Folds


def labelled(*counts):
    return np.concatenate([np.repeat(np.arange(len(counts)), counts), [-1, -1]])


@pytest.mark.parametrize(("counts", "n_folds"), [((20, 10, 5), 5), ((30, 30), 30)])
def test_every_label_is_hidden_exactly_once_where_classes_have_as_many_as_folds(counts, n_folds):
    classes = labelled(*counts)
    folds = make_folds(classes, n_folds, seed=0)
    assert not folds.is_repeated and not folds.single.size
    assert np.sort(np.concatenate(folds.hidden)).tolist() == list(range(sum(counts)))
    for nodes, seen in zip(folds.hidden, folds.seen):
        assert np.bincount(classes[nodes]).tolist() == [count // n_folds for count in counts]
        assert np.sort(np.concatenate([nodes, seen])).tolist() == list(range(sum(counts)))


def test_a_class_with_fewer_labels_than_folds_has_one_hidden_in_every_fold_each_in_turn():
    classes = labelled(10, 3)
    folds = make_folds(classes, 5, seed=0)
    rare = [nodes[classes[nodes] == 1] for nodes in folds.hidden]
    assert [len(nodes) for nodes in rare] == [1] * 5
    assert np.unique(np.concatenate(rare)).tolist() == [10, 11, 12]
    assert folds.is_repeated


def test_every_class_keeps_a_label_in_every_fold():
    classes = labelled(2, 2, 1, 9)
    for nodes in make_folds(classes, 5, seed=3).hidden:
        left = np.setdiff1d(np.flatnonzero(classes >= 0), nodes)
        assert np.unique(classes[left]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("n_folds", [9, 10, 500])
def test_no_more_folds_than_labels_of_the_largest_class_each_hiding_one_of_every_class(n_folds):
    classes = labelled(9, 4, 3, 1)
    folds = make_folds(classes, n_folds, seed=0)
    assert len(folds) == 9
    for nodes in folds.hidden:
        assert np.bincount(classes[nodes], minlength=4).tolist() == [1, 1, 1, 0]
    assert folds.nodes.tolist() == list(range(16))
    assert folds.single.tolist() == [3]


# Labels without weight


def hide(weights=None, n_labels=9):
    labels = Labels(np.arange(n_labels), np.arange(n_labels) % 2, 9, 2)
    labels = labels if weights is None else labels.with_weights(np.array(weights))
    return hide_labels(FitProblem(np.zeros((9, 1)), labels), 5, 0)


def test_labels_without_weight_are_never_hidden_and_never_train():
    folds = hide([1, 0, 2, 1, 0, 1, 1, 0, 0.5])
    assert folds.nodes.tolist() == [0, 2, 3, 5, 6, 8]
    assert all(np.isin(seen, [0, 2, 3, 5, 6, 8]).all() for seen in folds.seen)


# Groups and times


def test_labels_of_a_group_are_hidden_together():
    rng = np.random.default_rng(0)
    classes, groups = rng.integers(0, 2, 60), rng.integers(0, 12, 60)
    folds = make_folds(classes, 5, seed=0, groups=np.array(list("abcdefghijkl"))[groups])
    assert np.sort(np.concatenate(folds.hidden)).tolist() == list(range(60))
    for hidden, seen in zip(folds.hidden, folds.seen):
        assert not np.intersect1d(groups[hidden], groups[seen]).size
    assert len(make_folds(classes, 5, seed=0, groups=np.arange(60) // 20)) == 3


def test_labels_are_predicted_from_earlier_ones_alone():
    rng = np.random.default_rng(0)
    classes, times = rng.integers(-1, 2, 90), rng.integers(0, 40, 90)
    folds = make_folds(classes, 5, seed=0, times=times)
    assert len(folds) == 5
    for hidden, seen in zip(folds.hidden, folds.seen):
        assert times[seen].max() < times[hidden].min()
        assert (classes[np.concatenate([hidden, seen])] >= 0).all()


@pytest.mark.parametrize("kind", ["groups", "times"])
@pytest.mark.parametrize("n_labels", [2, 3, 4, 6])
def test_few_labels_make_folds_or_one_line(kind, n_labels):
    classes = np.concatenate([np.arange(n_labels) % 2, [-1]])
    try:
        folds = make_folds(classes, 5, seed=0, **{kind: np.arange(n_labels + 1)})
    except InputError as error:
        assert "two classes" in str(error)
    else:
        assert all(len(set(classes[seen])) == 2 for seen in folds.seen)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"groups": np.zeros(8)}, "two different values"),
        ({"groups": np.arange(7)}, "one value for each of the 8 rows"),
        ({"groups": ["a", None] * 4}, "empty"),
        ({"times": [1.0, np.nan] * 4}, "empty"),
        ({"times": np.zeros(8)}, "two classes"),
        ({"groups": ["a", 1] * 4}, "one kind"),
        ({"groups": np.arange(8), "times": np.arange(8)}, "exclude"),
    ],
)
def test_values_that_make_no_folds_are_refused(values, what):
    if "groups" in values and isinstance(values["groups"], list):
        values = values | {"groups": np.array(values["groups"], dtype=object)}
    with pytest.raises(InputError, match=what):
        make_folds(np.arange(8) % 2, 5, seed=0, **values)
