import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

from glnn.quality.folds import HeldOut
from glnn.quality.labelling import (
    ConformalSets,
    QueryRanking,
    nonconformity,
    query_rows,
    suspect_labels,
    uncertainty_weight,
)

# Suggestions of labels


def total_variance(rows, weights, labelled, ridge):
    """The weighted variance by the kernel's formula instead of the columns' covariance."""
    kernel = rows @ rows.T
    across = kernel[:, labelled]
    inner = kernel[np.ix_(labelled, labelled)] + ridge * np.eye(len(labelled))
    return weights @ np.diag(kernel - across @ np.linalg.solve(inner, across.T))


@pytest.fixture
def random_rows():
    rng = np.random.default_rng(0)
    return rng.standard_normal((30, 4)), rng.random(30)


def test_gains_are_what_the_weighted_variance_of_all_nodes_falls_by(random_rows):
    rows, weights = random_rows
    labelled = np.array([3, 7])
    pool = np.setdiff1d(np.arange(30), labelled)
    chosen, gains = QueryRanking(rows, weights, labelled).select(pool, 5)
    known = list(labelled)
    for node, gain in zip(chosen, gains):
        before = total_variance(rows, weights, known, 1.0)
        known.append(node)
        assert_allclose(before - total_variance(rows, weights, known, 1.0), gain)


def test_twins_are_not_suggested_one_after_the_other():
    rows = np.repeat(np.eye(3), 5, axis=0)  # three groups of five equal nodes
    nobody = np.empty(0, dtype=np.int64)
    chosen, _ = QueryRanking(rows, np.ones(15), nobody).select(np.arange(15), 3)
    assert {int(node) // 5 for node in chosen} == {0, 1, 2}


def test_a_label_says_nothing_about_nodes_in_the_opposite_direction():
    rows = query_rows(np.array([[3.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [-3.0, 0.0], [0.0, 0.0]]))
    assert_allclose(rows[:4] @ rows[:4].T, [[1, 0, 1, 0], [0, 1, 0, 1]] * 2, atol=1e-12)
    first, second = QueryRanking(rows, np.ones(5), np.array([0])).select(np.arange(1, 4), 2)[0]
    assert first in (1, 3)  # on the side without a label
    assert second == 2


def test_labels_that_come_and_go_leave_the_ranking_of_the_labels_that_are_left(random_rows):
    rows, weights = random_rows
    ranking, pool = QueryRanking(rows, weights, np.array([1, 3, 7])), np.arange(10, 30)
    ranking.set_labelled({3, 8, 9})
    fresh = QueryRanking(rows, weights, np.array([3, 8, 9]))
    assert ranking.labelled == fresh.labelled
    for own, other in zip(ranking.select(pool, 5), fresh.select(pool, 5)):
        assert_allclose(own, other)


def test_half_of_the_weight_goes_to_all_nodes_alike():
    p = np.random.default_rng(1).dirichlet(np.ones(3), 50)
    own = -(p * np.log(p)).sum(1) / np.log(3)
    assert_allclose(uncertainty_weight(p), own + own.mean())


# Suspect labels


def found(probabilities, classes):
    p = np.array(probabilities)
    return suspect_labels(HeldOut(p, np.array(classes), np.zeros(len(p))), p)


def with_mistakes(rng, n_mistakes, sharpness=3.0, n_classes=3, n_labels=200):
    """Predictions, labels drawn from them, and the labels that are then made wrong."""
    p = softmax(sharpness * rng.normal(size=(n_labels, n_classes)), 1)
    classes = (rng.random((n_labels, 1)) > np.cumsum(p, 1)[:, :-1]).sum(1)
    wrong = rng.permutation(n_labels)[:n_mistakes]
    classes[wrong] = (classes[wrong] + rng.integers(1, n_classes, n_mistakes)) % n_classes
    return p, classes, wrong


def test_planted_mistakes_are_listed_and_counted(rng):
    p, classes, wrong = with_mistakes(rng, 30, sharpness=6.0)
    suspects, n_estimated = found(p, classes)
    assert 20 <= n_estimated <= 40
    assert np.isin(suspects, wrong).mean() > 0.6
    assert np.isin(wrong, suspects).mean() > 0.6
    assert (classes[suspects] != p[suspects].argmax(1)).all()


@pytest.mark.parametrize("sharpness", [0.5, 1.0, 2.0, 4.0])
def test_hard_tables_with_right_labels_have_hardly_a_suspect(sharpness, rng):
    tables = [with_mistakes(rng, 0, sharpness) for _ in range(10)]
    assert np.mean([len(found(p, classes)[0]) for p, classes, _ in tables]) <= 0.02 * 200


def test_the_likeliest_mistake_comes_first(rng):
    p, classes, _ = with_mistakes(rng, 30, sharpness=6.0)
    suspects, _ = found(p, classes)
    own = p[suspects, classes[suspects]]
    shares = np.bincount(classes)[classes[suspects]]
    assert (np.diff(own / shares) >= -1e-3).all()


def test_a_rare_label_is_not_suspect_for_being_rare():
    classes = np.repeat([0, 1, 2], [72, 13, 5])
    shares = np.bincount(classes) / len(classes)
    assert len(found(np.tile(shares, (len(classes), 1)), classes)[0]) == 0


# Prediction sets


def sets_of(judged):
    return ConformalSets.of(HeldOut(judged.probabilities, judged.classes, np.zeros(len(judged))))


def test_nonconformity_is_the_log_ratio_to_the_best_other_class(rng):
    p = rng.dirichlet(np.ones(4), size=20)
    expected = np.array([[np.log(np.delete(row, c).max() / row[c]) for c in range(4)] for row in p])
    np.testing.assert_allclose(nonconformity(p), expected)


@pytest.mark.parametrize("alpha", [0.05, 0.1, 0.3])
def test_sets_keep_their_promise_on_nodes_of_the_same_kind(alpha, drawn):
    shares = []
    for _ in range(20):
        seen, new = drawn(100), drawn(200)
        inside = sets_of(seen).contains(new.probabilities, alpha)
        shares.append(inside[np.arange(200), new.classes].mean())
    assert np.mean(shares) == pytest.approx(1 - alpha, abs=0.02)


def test_a_class_as_strange_as_may_be_missed_is_missed():
    sets = ConformalSets(np.arange(19.0), 2)  # a p-value is a multiple of 1/20

    def node(strange):
        odds = np.exp([[0.0, -strange]])
        return odds / odds.sum()

    assert sets.contains(node(17.5), 0.1).tolist() == [[True, False]]  # 2/20 is not above 0.1
    assert sets.contains(node(16.5), 0.1).tolist() == [[True, True]]
