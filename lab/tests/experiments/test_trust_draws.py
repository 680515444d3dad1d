import numpy as np
import pytest

from glnn_lab.experiments.trust_draws import at_random, per_class, table


@pytest.mark.parametrize("name", ["moons", "uneven", "wide", "gaps", "text", "dates", "block"])
def test_a_table_is_finite_and_the_same_for_the_same_seed(name):
    x, y, graph = table(name, 3)
    dense = x.toarray() if hasattr(x, "toarray") else x
    assert np.isfinite(dense).all()
    assert len(dense) == len(y)
    assert (graph is not None) == (name == "block")
    again = table(name, 3)[0]
    assert np.array_equal(dense, again.toarray() if hasattr(again, "toarray") else again)


def test_the_uneven_table_has_classes_of_80_15_and_5_percent():
    shares = np.bincount(table("uneven", 0)[1]) / 2000
    np.testing.assert_allclose(shares, [0.8, 0.15, 0.05], atol=0.02)


def test_columns_of_text_and_dates_become_numbers_beside_the_eight_of_the_table():
    assert table("text", 0)[0].shape[1] > 8
    assert table("dates", 0)[0].shape == (400, 9)
    gaps = table("gaps", 0)[0]
    assert set(np.unique(gaps[:, 1::2])) <= {0.0, 1.0}  # a mark beside each column


def test_labels_that_are_shown_are_true():
    rng = np.random.default_rng(0)
    y = np.where(np.arange(50) < 5, -1, np.arange(50) % 3)
    for shown in (at_random(y, 12, rng), per_class(y, 4, rng)):
        assert (shown >= 0).sum() == 12
        assert (shown[shown >= 0] == y[shown >= 0]).all()
