import numpy as np
import pytest

from glnn.exceptions import InputError
from glnn.quality.folds import one_group, stratified_folds


def labelled(*counts):
    return np.concatenate([np.repeat(np.arange(len(counts)), counts), [-1, -1]])


def test_every_label_is_hidden_exactly_once_where_classes_have_as_many_as_folds():
    folds = stratified_folds(labelled(10, 7, 5), 5, seed=0)
    hidden = np.concatenate(folds.hidden)
    assert sorted(hidden.tolist()) == list(range(22))
    assert not folds.is_repeated and not folds.single.size


def test_every_fold_hides_a_fair_share_of_every_class():
    classes = labelled(20, 10, 5)
    for nodes in stratified_folds(classes, 5, seed=1).hidden:
        assert np.bincount(classes[nodes]).tolist() == [4, 2, 1]


def test_a_class_with_fewer_labels_than_folds_has_one_hidden_in_every_fold_each_in_turn():
    classes = labelled(10, 3)
    folds = stratified_folds(classes, 5, seed=0)
    rare = [nodes[classes[nodes] == 1] for nodes in folds.hidden]
    assert [len(nodes) for nodes in rare] == [1] * 5
    assert np.unique(np.concatenate(rare)).tolist() == [10, 11, 12]
    assert folds.is_repeated


def test_the_seed_decides_whose_turn_it_is_in_a_small_class():
    classes = labelled(10, 3)
    firsts = {int(stratified_folds(classes, 5, seed=s).hidden[0][-1]) for s in range(12)}
    assert firsts == {10, 11, 12}


def test_every_class_keeps_a_label_in_every_fold():
    classes = labelled(2, 2, 1, 9)
    for nodes in stratified_folds(classes, 5, seed=3).hidden:
        left = np.setdiff1d(np.flatnonzero(classes >= 0), nodes)
        assert np.unique(classes[left]).tolist() == [0, 1, 2, 3]


def test_a_class_with_a_single_label_is_named_and_never_hidden():
    folds = stratified_folds(labelled(4, 1), 2, seed=0)
    assert folds.single.tolist() == [1]
    assert 4 not in folds.nodes


def test_the_seed_decides_the_deal():
    first, same, other = (stratified_folds(labelled(9, 9), 3, seed=s) for s in (0, 0, 1))
    equal = [np.array_equal(a, b) for a, b in zip(first.hidden, same.hidden)]
    assert all(equal)
    assert not all(np.array_equal(a, b) for a, b in zip(first.hidden, other.hidden))


def test_labels_that_cannot_be_hidden_are_refused():
    with pytest.raises(InputError, match=r"too few labels to tell: 2\. .* one label in each of 2"):
        stratified_folds(labelled(1, 1), 2, seed=0)


@pytest.mark.parametrize("n_folds", [9, 10, 500])
def test_no_more_folds_than_labels_of_the_largest_class_each_hiding_one_of_every_class(n_folds):
    classes = labelled(9, 4, 3, 1)
    folds = stratified_folds(classes, n_folds, seed=0)
    assert len(folds) == 9
    for nodes in folds.hidden:
        assert np.bincount(classes[nodes], minlength=4).tolist() == [1, 1, 1, 0]
    assert folds.nodes.tolist() == list(range(16))
    assert folds.single.tolist() == [3]


def test_with_even_classes_the_most_folds_hide_every_label_once():
    folds = stratified_folds(labelled(30, 30), 500, seed=0)
    assert len(folds) == 30 and not folds.is_repeated
    assert np.sort(np.concatenate(folds.hidden)).tolist() == list(range(60))


def test_one_group_hides_its_share_and_at_least_one_of_each_class():
    classes = labelled(9, 3, 2, 1)
    (hidden,) = one_group(classes, 1 / 3, seed=0).hidden
    assert np.bincount(classes[hidden], minlength=4).tolist() == [3, 1, 1, 0]
