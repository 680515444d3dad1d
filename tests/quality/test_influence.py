import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

from glnn.quality.influence import label_influence


@pytest.fixture
def drawn():
    rng = np.random.default_rng(0)
    labelled = np.array([2, 3, 5, 8, 13])
    return rng.standard_normal((20, 3)), labelled, np.array([0, 1, 2, 1, 0])


def scores(rows, labelled, classes, ridge):
    """The same regression by scikit-learn, its intercept a penalised column."""
    wide = np.hstack([rows, np.ones((len(rows), 1))])
    fitted = Ridge(ridge, fit_intercept=False).fit(wide[labelled], np.eye(3)[classes] - 1 / 3)
    return wide @ fitted.coef_.T


@pytest.mark.parametrize("ridge", [0.1, 1.0, 10.0])
def test_influence_is_what_fitting_again_without_the_label_changes(drawn, ridge):
    rows, labelled, classes = drawn
    found = label_influence(rows, labelled, classes, 3, ridge=ridge)
    whole = scores(rows, labelled, classes, ridge)
    for k in range(len(labelled)):
        without = scores(rows, np.delete(labelled, k), np.delete(classes, k), ridge)
        for node in range(len(rows)):
            assert_allclose(found.at(node)[k], (whole - without)[node], atol=1e-12)


def test_what_a_label_gives_to_its_class_it_takes_from_the_others(drawn):
    found = label_influence(*drawn, 3)
    assert_allclose(found.at(4).sum(1), 0, atol=1e-12)


def test_turning_all_rows_together_changes_nothing(drawn):
    rows, labelled, classes = drawn
    turn, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))
    first = label_influence(rows, labelled, classes, 3)
    second = label_influence(rows @ turn, labelled, classes, 3)
    assert_allclose(first.at(0), second.at(0), atol=1e-12)


def test_a_label_speaks_for_its_class_at_a_node_that_equals_it(drawn):
    rows, labelled, classes = drawn
    rows[0] = rows[labelled[2]]
    at = label_influence(rows, labelled, classes, 3).at(0)
    assert at[2].argmax() == classes[2]
