import numpy as np
import pytest
from numpy.testing import assert_allclose

from glnn.quality.suggest import attention, most_telling, uncertainty


def total_variance(rows, weights, labelled, ridge):
    """The weighted variance by the kernel's formula instead of the columns' covariance."""
    kernel = rows @ rows.T
    across = kernel[:, labelled]
    inner = kernel[np.ix_(labelled, labelled)] + ridge * np.eye(len(labelled))
    return weights @ np.diag(kernel - across @ np.linalg.solve(inner, across.T))


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    return rng.standard_normal((30, 4)), rng.random(30)


def test_gains_are_what_the_weighted_variance_of_all_nodes_falls_by(drawn):
    rows, weights = drawn
    labelled = np.array([3, 7])
    pool = np.setdiff1d(np.arange(30), labelled)
    chosen, gains = most_telling(rows, weights, labelled, pool, 5, ridge=0.7)
    known = list(labelled)
    for node, gain in zip(chosen, gains):
        before = total_variance(rows, weights, known, 0.7)
        known.append(node)
        assert_allclose(before - total_variance(rows, weights, known, 0.7), gain)


def test_the_first_suggestion_is_the_best_of_all_by_trying_each(drawn):
    rows, weights = drawn
    labelled, pool = np.array([0, 1]), np.arange(2, 30)
    chosen, _ = most_telling(rows, weights, labelled, pool, 1)
    left = [total_variance(rows, weights, [0, 1, v], 1.0) for v in pool]
    assert chosen[0] == pool[int(np.argmin(left))]


def test_twins_are_not_suggested_one_after_the_other():
    rows = np.repeat(np.eye(3), 5, axis=0)  # three groups of five equal nodes
    chosen, _ = most_telling(rows, np.ones(15), np.empty(0, dtype=np.int64), np.arange(15), 3)
    assert {int(node) // 5 for node in chosen} == {0, 1, 2}


def test_a_group_whose_nodes_are_sure_comes_last():
    rows = np.repeat(np.eye(3), 5, axis=0)
    weights = np.repeat([0.5, 0.0, 1.0], 5)
    chosen, gains = most_telling(rows, weights, np.empty(0, dtype=np.int64), np.arange(15), 3)
    assert [int(node) // 5 for node in chosen[:2]] == [2, 0]
    assert gains[0] > gains[1] > gains[2]


def test_no_more_nodes_are_suggested_than_there_are(drawn):
    rows, weights = drawn
    chosen, _ = most_telling(rows, weights, np.arange(27), np.arange(27, 30), 10)
    assert sorted(chosen) == [27, 28, 29]


def test_uncertainty_does_not_depend_on_the_order_or_number_of_equal_classes():
    first, second = uncertainty(np.array([[0.2, 0.3, 0.5], [0.5, 0.2, 0.3]]))
    assert_allclose(first, second)
    for n_classes in (2, 5):
        assert_allclose(uncertainty(np.full((1, n_classes), 1 / n_classes)), 1.0)


def test_half_of_the_weight_goes_to_all_nodes_alike():
    p = np.random.default_rng(1).dirichlet(np.ones(3), 50)
    assert_allclose(attention(p).sum(), 2 * uncertainty(p).sum())
    assert_allclose(attention(p) - uncertainty(p), uncertainty(p).mean())
