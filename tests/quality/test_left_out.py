import numpy as np
import pytest
from numpy.testing import assert_allclose

from glnn.quality.left_out import is_quickly_refitted, left_out_effects

LABELLED, CLASSES = np.array([0, 2, 5, 9]), np.array([0, 1, 2, 1])


def linear(rows):
    """A fit whose answer to leaving a label out is known in closed form."""
    wide = np.hstack([rows, np.ones((len(rows), 1))])

    def refit(hidden, seed):
        kept = ~np.isin(LABELLED, hidden)
        known, targets = wide[LABELLED[kept]], np.eye(3)[CLASSES[kept]] - 1 / 3
        inner = known.T @ known + np.eye(wide.shape[1])
        return wide @ np.linalg.solve(inner, known.T @ targets) + seed  # all seeds move alike

    return refit


def test_refits_of_a_linear_classifier_find_its_closed_form():
    rows = np.random.default_rng(0).standard_normal((12, 3))
    found = left_out_effects(linear(rows), LABELLED, seeds=(0, 1, 2))
    wide = np.hstack([rows, np.ones((12, 1))])
    known, targets = wide[LABELLED], np.eye(3)[CLASSES] - 1 / 3
    reach = wide @ np.linalg.inv(known.T @ known + np.eye(4)) @ known.T
    wrong = (targets - reach[LABELLED] @ targets) / (1 - np.diag(reach[LABELLED]))[:, None]
    assert_allclose(found, reach.T[:, :, None] * wrong[:, None, :], atol=1e-12)


def test_every_seed_is_compared_with_itself_and_counts_alike():
    calls = []

    def refit(hidden, seed):
        calls.append((len(hidden), seed))
        return np.full((2, 2), 10.0 * seed + (0 if len(hidden) else seed))

    found = left_out_effects(refit, np.array([4]), seeds=(1, 3))
    assert_allclose(found, np.full((1, 2, 2), 2.0))  # the mean of 1 and 3
    assert calls == [(0, 1), (1, 1), (0, 3), (1, 3)]


@pytest.mark.parametrize(
    ("n_fits", "shape", "wanted"),
    [
        (80, (1000, 100), True),
        (81, (150, 4), False),
        (6, (1001, 4), False),
        (6, (1000, 101), False),
    ],
)
def test_labels_are_left_out_while_fits_are_few_and_small(n_fits, shape, wanted):
    assert is_quickly_refitted(n_fits, shape) == wanted
