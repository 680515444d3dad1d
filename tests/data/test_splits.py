import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data import NodeData, Split, load_dataset, make_split
from glnn.data.splits import class_sizes
from glnn.exceptions import DataFormatError, InputError

SETTINGS = settings(settings.get_profile("records"))


def labelled(labels, name="toy", **fields):
    labels = np.array(labels, dtype=np.int64)
    names = tuple(f"c{k}" for k in range(int(labels.max(initial=-1)) + 1))
    features = np.ones((labels.size, 1))
    return NodeData.from_arrays(features, labels, class_names=names, name=name, **fields)


def check(data, split):
    """What every split must be: labelled nodes only, in one part only, sorted."""
    nodes = np.concatenate([split.train, split.val, split.test])
    assert np.unique(nodes).size == nodes.size
    assert (data.labels[nodes] >= 0).all()
    for part in (split.train, split.val, split.test):
        assert part.dtype == np.int64
        assert (np.diff(part) > 0).all()


@SETTINGS
@given(
    st.lists(st.integers(-1, 3), min_size=8, max_size=80), st.integers(0, 2**32), st.integers(1, 3)
)
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
    again = make_split(data, "per_class", seed, n_per_class=count)
    assert again == split


@pytest.mark.parametrize(
    ("n_nodes", "asked", "sizes"),
    [
        (2000, (None, None), (500, 1000)),
        (2000, (10, 20), (10, 20)),
        (70, (None, None), (10, 20)),
        (70, (5, 0), (5, 0)),
        (70, (0, None), (0, 30)),
        (70, (None, 12), (18, 12)),
    ],
)
def test_a_size_that_is_left_open_takes_its_share_or_what_is_left(n_nodes, asked, sizes):
    data = labelled(np.arange(n_nodes) % 2)
    split = make_split(data, "per_class", n_val=asked[0], n_test=asked[1])
    assert (split.train.size, split.val.size, split.test.size) == (40, *sizes)


def test_public_is_the_published_split():
    parts = {"train": np.array([1]), "test": np.array([0])}
    split = make_split(labelled([0, 1], splits=parts), "public", 9)
    assert (split.train.tolist(), split.val.tolist(), split.test.tolist()) == ([1], [], [0])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pub", {}, "Did you mean 'public'"),
        ("public", {}, "published split"),
        ("per_class", {"n_per_class": 0}, "at least 1"),
        ("per_class", {"n_per_class": 1, "n_val": 2, "n_test": 1}, "at most the 2"),
        ("per_class", {"seed": -1}, "seed"),
    ],
)
def test_bad_choices_are_one_clear_line(name, options, message):
    with pytest.raises(InputError, match=message):
        make_split(labelled([0, 1, 0, 1]), name, **options)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": "glnn split"}', "[" * 100_000, '{"format": 1}']
)
def test_text_that_is_no_split_is_refused(text):
    with pytest.raises(DataFormatError):
        Split.from_json(text)


def test_mutated_splits_give_a_split_or_one_clear_line(tmp_path, survives_mutation):
    path = tmp_path / "split.json"
    make_split(labelled(np.arange(20) % 3), "per_class", n_per_class=2).save(path)
    survives_mutation(lambda: Split.load(path), [path])


@pytest.mark.dataset
def test_fillers_of_citeseer_are_in_no_split(published):
    data = load_dataset("citeseer")
    fillers = np.flatnonzero(data.labels < 0)
    assert fillers.size == 15
    for name in ("public", "per_class"):
        split = make_split(data, name, 1)
        check(data, split)
        assert not np.isin(fillers, np.concatenate([split.train, split.val, split.test])).any()
