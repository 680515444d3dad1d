import numpy as np
import pytest

from glnn.quality.folds import stratified_folds
from glnn.quality.held_out import hold_out, of_validation

CLASSES = np.array([0] * 6 + [1] * 6 + [-1] * 4)


def tagged_refit(seen):
    """A fit whose probabilities tell which labels were hidden from it."""

    def refit(hidden):
        seen.append(hidden)
        share = np.isin(np.arange(len(CLASSES)), hidden).astype(float)
        return np.stack([share, 1 - share], 1)

    return refit


def test_every_judged_row_comes_from_a_fit_that_its_label_was_hidden_from():
    seen = []
    folds = stratified_folds(CLASSES, 3, seed=0)
    found = hold_out(tagged_refit(seen), CLASSES, folds)
    assert len(seen) == 3
    np.testing.assert_array_equal(found.judged, np.arange(12))
    np.testing.assert_array_equal(found.probabilities[:12, 0], 1)
    for number, hidden in enumerate(folds.hidden):
        assert set(found.fold[hidden]) == {number}


def test_a_node_without_a_label_is_scored_by_one_fit():
    answers = iter(np.eye(3))
    folds = stratified_folds(CLASSES, 3, seed=0)
    found = hold_out(lambda hidden: np.tile(next(answers), (16, 1)), CLASSES, folds)
    np.testing.assert_array_equal(found.probabilities[12:].argmax(1), found.fold[12:])
    np.testing.assert_array_equal(found.probabilities[12:].max(1), 1)


def test_a_label_that_is_hidden_twice_has_the_mean_of_both_answers():
    classes = np.array([0] * 4 + [1] * 2)
    answers = iter([0.2, 0.4, 0.6, 0.8])
    folds = stratified_folds(classes, 4, seed=0)
    given = {}

    def refit(hidden):
        p = next(answers)
        for node in hidden:
            given.setdefault(int(node), []).append(p)
        return np.tile([p, 1 - p], (6, 1))

    found = hold_out(refit, classes, folds)
    assert {len(given[node]) for node in (4, 5)} == {2}
    for node, values in given.items():
        assert found.probabilities[node, 0] == pytest.approx(np.mean(values))


def test_folds_can_be_fitted_at_the_same_time():
    folds = stratified_folds(CLASSES, 3, seed=0)
    one, two = (hold_out(tagged_refit([]), CLASSES, folds, n_jobs=n) for n in (1, 2))
    np.testing.assert_array_equal(one.probabilities, two.probabilities)


def test_a_node_is_calibrated_by_what_other_folds_teach(rng):
    folds = stratified_folds(CLASSES, 3, seed=0)
    raw = rng.dirichlet([1, 1], size=(3, 16))
    answers = iter(raw)
    found = hold_out(lambda hidden: next(answers), CLASSES, folds)
    own = found.fold == 1
    expected = found.calibration(~own).apply(found.probabilities[own])
    np.testing.assert_array_equal(found.calibrated()[own], expected)


def test_validation_nodes_are_judged_and_nothing_else_is():
    found = of_validation(np.full((16, 2), 0.5), CLASSES, np.array([1, 7]))
    assert found.judged.tolist() == [1, 7]
    assert found.classes[[1, 7]].tolist() == [0, 1]
