import numpy as np
import pytest

from glnn.data import NodeData, load_dataset
from glnn.data.splits import class_sizes
from glnn.exceptions import InputError
from glnn_lab.experiments.splits import allocate_balanced, allocate_stratified, make_split


def labelled(labels, name="toy", **fields):
    labels = np.array(labels, dtype=np.int64)
    names = tuple(f"c{k}" for k in range(int(labels.max(initial=-1)) + 1))
    features = np.ones((labels.size, 1))
    return NodeData.from_arrays(features, labels, class_names=names, name=name, **fields)


def check(data, split):
    """What every split must be: labelled nodes only, in one part only."""
    nodes = np.concatenate([split.train, split.val, split.test])
    assert np.unique(nodes).size == nodes.size
    assert (data.labels[nodes] >= 0).all()


BALANCES = pytest.mark.parametrize("balance", ["stratified", "balanced"])


@BALANCES
@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
def test_rate_draws_the_share_and_covers_every_class(rate, balance):
    data = labelled(np.random.default_rng(0).integers(-1, 4, 60))
    split = make_split(data, "rate", 5, rate=rate, balance=balance)
    check(data, split)
    n_present = int((class_sizes(data) > 0).sum())
    assert split.train.size == max(round(rate * data.labelled.size), n_present)
    assert np.unique(data.labels[split.train]).size == n_present
    assert make_split(data, "rate", 5, rate=rate, balance=balance) == split


@BALANCES
def test_count_draws_so_many_labels_and_tests_on_all_others(balance):
    data = labelled(np.random.default_rng(0).integers(-1, 4, 60))
    split = make_split(data, "count", 1, n_labels=8, balance=balance)
    check(data, split)
    assert (split.train.size, split.val.size) == (8, 0)
    assert split.train.size + split.test.size == data.labelled.size
    watched = make_split(data, "count", 1, n_labels=8, balance=balance, n_val=20)
    assert np.array_equal(split.train, watched.train)
    assert np.array_equal(np.union1d(watched.val, watched.test), split.test)


@pytest.mark.parametrize(
    ("name", "n_train", "n_test", "n_nodes"),
    [("terroristsrel", 160, 150, 851), ("terrorattack", 120, 200, 1293)],
)
def test_the_papers_counts_hold_even_with_tiny_classes(name, n_train, n_test, n_nodes):
    labels = np.zeros(n_nodes, dtype=np.int64)
    labels[:8], labels[8:23] = 1, 2
    data = labelled(labels, name=name)
    split = make_split(data, "paper", 3)
    check(data, split)
    assert (split.train.size, split.val.size, split.test.size) == (n_train, 0, n_test)
    assert np.unique(data.labels[split.train]).size == 3
    assert make_split(data, "paper", 3, n_val=50).val.size == 50


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pub", {}, "Did you mean 'public'"),
        ("public", {}, "published split"),
        ("rate", {"rat": 0.1}, "got 'rat'"),
        ("rate", {"rate": 0}, "greater than 0"),
        ("rate", {"balance": "none"}, "stratified, balanced"),
        ("count", {"n_labels": 1}, "at least 2"),
        ("count", {"n_test": 1}, "got 'n_test'"),
        ("paper", {}, "got 'toy'"),
    ],
)
def test_bad_choices_are_one_clear_line(name, options, message):
    with pytest.raises(InputError, match=message):
        make_split(labelled([0, 1, 0, 1]), name, **options)


@pytest.mark.dataset
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("terroristsrel", (160, 0, 150)),
        ("terrorattack", (120, 0, 200)),
        ("cora", (140, 500, 1000)),
        ("citeseer", (120, 500, 1000)),
    ],
)
def test_the_papers_sizes_hold_on_the_published_sets(published_data, name, sizes):
    data = load_dataset(name)
    split = make_split(data, "paper")
    assert (split.train.size, split.val.size, split.test.size) == sizes
    assert np.unique(data.labels[split.train]).size == data.n_classes


@pytest.mark.parametrize("allocate", [allocate_stratified, allocate_balanced])
def test_counts_sum_to_the_total_and_cover_every_class_that_can_be(allocate):
    rng = np.random.default_rng(0)
    for _ in range(50):
        sizes = rng.integers(0, 40, rng.integers(1, 7))
        total = int(rng.integers(0, sizes.sum() + 1))
        counts = allocate(sizes, total)
        assert counts.sum() == total
        assert ((counts >= 0) & (counts <= sizes)).all()
        if total >= (sizes > 0).sum():
            assert (counts[sizes > 0] >= 1).all()
    assert allocate_stratified(np.array([50, 30, 20]), 10).tolist() == [5, 3, 2]
    balanced = allocate_balanced(np.array([100, 90, 80]), 50)
    assert balanced.max() - balanced.min() <= 1
