import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from glnn.data.allocate import balanced_counts, draw_by_class, stratified_counts
from glnn.exceptions import InputError

SETTINGS = settings(settings.get_profile("records"))

SIZES = st.lists(st.integers(0, 40), min_size=1, max_size=6).map(np.array)


@pytest.mark.parametrize("allocate", [stratified_counts, balanced_counts])
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
    counts = balanced_counts(np.array([100, 90, 80]), 50)
    assert counts.max() - counts.min() <= 1


def test_stratified_counts_are_proportional_where_that_is_whole():
    assert stratified_counts(np.array([50, 30, 20]), 10).tolist() == [5, 3, 2]


def test_more_than_there_is_cannot_be_drawn():
    with pytest.raises(InputError, match="at most the 3 labelled nodes, got 4"):
        stratified_counts(np.array([1, 2]), 4)


def test_drawn_nodes_have_the_counted_classes():
    labels = np.array([0, 1, 0, -1, 1, 1])
    drawn = draw_by_class(labels, np.array([1, 2]), np.random.default_rng(0))
    assert np.bincount(labels[drawn]).tolist() == [1, 2]
    assert (np.diff(drawn) > 0).all()
