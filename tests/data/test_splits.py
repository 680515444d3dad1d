import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data import NodeData, Split, load_dataset, make_split
from glnn.data.splits import (
    _resolve_rest_sizes,
    allocate_balanced,
    allocate_stratified,
    class_sizes,
    draw_by_class,
)
from glnn.exceptions import DataFormatError, InputError

# Splits

SETTINGS = settings(settings.get_profile("records"))


def labelled(labels, name="toy", **fields):
    labels = np.array(labels, dtype=np.int64)
    names = tuple(f"c{k}" for k in range(int(labels.max(initial=-1)) + 1))
    features = sp.csr_matrix(np.ones((labels.size, 1), dtype=np.float32))
    return NodeData(features, labels, None, names, name=name, **fields)


LABELS = st.lists(st.integers(-1, 3), min_size=8, max_size=80)
SEEDS = st.integers(0, 2**32)


def check(data, split):
    """What every split must be: labelled nodes only, in one part only, sorted."""
    nodes = np.concatenate([split.train, split.val, split.test])
    assert np.unique(nodes).size == nodes.size
    assert (data.labels[nodes] >= 0).all()
    for part in (split.train, split.val, split.test):
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()


@SETTINGS
@given(LABELS, SEEDS, st.integers(1, 3))
def test_per_class_takes_as_many_of_each(labels, seed, count):
    data = labelled(labels)
    sizes = class_sizes(data)
    if ((sizes > 0) & (sizes < count)).any():
        with pytest.raises(InputError, match="n_per_class"):
            make_split(data, "per_class", seed, n_per_class=count)
        return
    split = make_split(data, "per_class", seed, n_per_class=count)
    check(data, split)
    drawn = np.bincount(data.labels[split.train], minlength=data.n_classes)
    assert np.array_equal(drawn, np.where(sizes > 0, count, 0))
    assert split.train.size + split.val.size + split.test.size == data.labelled.size


@SETTINGS
@given(LABELS, SEEDS, st.floats(0.01, 1), st.sampled_from(["stratified", "balanced"]))
def test_rate_draws_the_share_and_covers_every_class(labels, seed, rate, balance):
    data = labelled(labels)
    split = make_split(data, "rate", seed, rate=rate, balance=balance)
    check(data, split)
    sizes = class_sizes(data)
    n_present = int((sizes > 0).sum())
    assert split.train.size == max(round(rate * data.labelled.size), n_present)
    assert np.unique(data.labels[split.train]).size == n_present
    again = make_split(data, "rate", seed, rate=rate, balance=balance)
    assert again == split
    assert hash(again) == hash(split)


@SETTINGS
@given(LABELS, SEEDS, st.integers(4, 8), st.sampled_from(["stratified", "balanced"]))
def test_count_draws_so_many_labels_and_tests_on_all_others(labels, seed, count, balance):
    data = labelled(labels)
    if count > data.labelled.size:
        with pytest.raises(InputError, match="n_labels"):
            make_split(data, "count", seed, n_labels=count, balance=balance)
        return
    split = make_split(data, "count", seed, n_labels=count, balance=balance)
    check(data, split)
    assert (split.train.size, split.val.size) == (count, 0)
    assert split.train.size + split.test.size == data.labelled.size
    assert np.unique(data.labels[split.train]).size == np.unique(data.labels[data.labelled]).size


def test_another_seed_gives_another_split():
    data = labelled(np.arange(200) % 4)
    assert make_split(data, "rate", 0) != make_split(data, "rate", 1)


@pytest.mark.parametrize(
    ("how", "name"), [("per_class", "toy"), ("rate", "toy"), ("paper", "terroristsrel")]
)
def test_parts_are_drawn_from_everywhere(how, name):
    data = labelled(np.arange(1000) % 4, name=name)
    split = make_split(data, how, 0, n_val=200)
    for part in (split.train, split.val, split.test):
        assert 0.25 < (part < 500).mean() < 0.75  # neither the first nodes nor the last


def test_sizes_are_500_and_1000_where_there_are_enough():
    data = labelled(np.arange(2000) % 2)
    split = make_split(data, "per_class")
    assert (split.train.size, split.val.size, split.test.size) == (40, 500, 1000)
    split = make_split(data, "per_class", n_val=10, n_test=20)
    assert (split.val.size, split.test.size) == (10, 20)
    with pytest.raises(InputError, match=r"at most the 1960"):
        make_split(data, "per_class", n_val=1000, n_test=1000)


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


def test_the_paper_split_is_not_made_up_for_other_sets():
    with pytest.raises(InputError, match="got 'toy'"):
        make_split(labelled([0, 1]), "paper")
    with pytest.raises(InputError, match="pubmed_star"):
        make_split(labelled([0, 1], name="pubmed"), "paper")


def test_public_is_the_published_split():
    parts = {"train": np.array([1]), "test": np.array([0])}
    split = make_split(labelled([0, 1], splits=parts), "public", 9)
    assert (split.train.tolist(), split.val.tolist(), split.test.tolist()) == ([1], [], [0])
    with pytest.raises(InputError, match="published split"):
        make_split(labelled([0, 1]), "public")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pub", {}, "Did you mean 'public'"),
        ("rate", {"rat": 0.1}, "got 'rat'"),
        ("rate", {"rate": 0}, "greater than 0"),
        ("rate", {"rate": 1.5}, "at most 1"),
        ("rate", {"balance": "none"}, "stratified, balanced"),
        ("per_class", {"n_per_class": 0}, "at least 1"),
        ("count", {"n_labels": 1}, "at least 2"),
        ("count", {"n_test": 1}, "got 'n_test'"),
        ("rate", {"seed": -1}, "seed"),
    ],
)
def test_bad_choices_are_one_clear_line(name, options, message):
    with pytest.raises(InputError, match=message):
        make_split(labelled([0, 1, 0, 1]), name, **options)


def test_json_is_plain_and_comes_back(tmp_path):
    split = make_split(labelled(np.arange(50) % 3), "rate", 5, rate=0.2)
    fields = json.loads(split.to_json())
    assert fields["train"] == split.train.tolist()
    assert (fields["dataset"], fields["name"], fields["seed"]) == ("toy", "rate", 5)
    split.save(tmp_path / "split.json")
    assert Split.load(tmp_path / "split.json") == split


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"format": "glnn split", "version": 2}', "[" * 100_000, '{"format": 1}'],
)
def test_text_that_is_no_split_is_refused(text):
    with pytest.raises(DataFormatError):
        Split.from_json(text)


def test_mutated_splits_give_a_split_or_one_clear_line(tmp_path, survives_mutation):
    path = tmp_path / "split.json"
    make_split(labelled(np.arange(20) % 3), "rate").save(path)
    survives_mutation(lambda: Split.load(path), [path])


@pytest.mark.dataset
def test_fillers_of_citeseer_are_in_no_split(published):
    data = load_dataset("citeseer")
    fillers = np.flatnonzero(data.labels < 0)
    assert fillers.size == 15
    for name in ("public", "per_class", "rate", "count", "paper"):
        split = make_split(data, name, 1)
        check(data, split)
        assert not np.isin(fillers, np.concatenate([split.train, split.val, split.test])).any()


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
def test_the_papers_sizes_hold_on_the_published_sets(published, name, sizes):
    data = load_dataset(name)
    split = make_split(data, "paper")
    assert (split.train.size, split.val.size, split.test.size) == sizes
    assert np.unique(data.labels[split.train]).size == data.n_classes


def test_validation_nodes_of_a_count_are_taken_from_those_that_test():
    data = load_dataset("wine")
    whole, watched = (make_split(data, "count", 3, n_labels=10, n_val=n) for n in (0, 20))
    np.testing.assert_array_equal(whole.train, watched.train)
    assert watched.val.size == 20
    np.testing.assert_array_equal(np.union1d(watched.val, watched.test), whole.test)


@pytest.mark.parametrize(
    ("asked", "sizes"),
    [((None, None), (10, 20)), ((5, 0), (5, 0)), ((0, None), (0, 30)), ((None, 12), (18, 12))],
)
def test_a_size_that_is_left_open_takes_its_share_or_what_is_left(asked, sizes):
    assert _resolve_rest_sizes(30, *asked) == sizes


# Counts per class

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=6).map(np.array)


@pytest.mark.parametrize("allocate", [allocate_stratified, allocate_balanced])
@SETTINGS
@given(sizes=SIZES, data=st.data())
def test_counts_sum_to_the_total_and_cover_every_class_that_can_be(allocate, sizes, data):
    total = data.draw(st.integers(0, int(sizes.sum())))
    counts = allocate(sizes, total)
    assert counts.sum() == total
    assert (counts >= 0).all()
    assert (counts <= sizes).all()
    if total >= (sizes > 0).sum():
        assert (counts[sizes > 0] >= 1).all()


def test_balanced_counts_differ_by_at_most_one_between_large_classes():
    counts = allocate_balanced(np.array([100, 90, 80]), 50)
    assert counts.max() - counts.min() <= 1


def test_stratified_counts_are_proportional_where_that_is_whole():
    assert allocate_stratified(np.array([50, 30, 20]), 10).tolist() == [5, 3, 2]


def test_more_than_there_is_cannot_be_drawn():
    with pytest.raises(InputError, match="at most the 3 labelled nodes, got 4"):
        allocate_stratified(np.array([1, 2]), 4)


def test_drawn_nodes_have_the_counted_classes():
    labels = np.array([0, 1, 0, -1, 1, 1])
    drawn = draw_by_class(labels, np.array([1, 2]), np.random.default_rng(0))
    assert np.bincount(labels[drawn]).tolist() == [1, 2]
    assert (np.diff(drawn) > 0).all()
