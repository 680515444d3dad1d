import itertools

import numpy as np
import pytest

from glnn.engine import mixture
from glnn.engine.mixture import fit_weights, mix

RNG = np.random.default_rng(0)
# a good track, a middling, a poor one; all above the floor
RIGHT = np.maximum(RNG.beta([4.0, 2.0, 1.0], [1.0, 2.0, 2.0], (25, 3)), 0.1)


def objective(weights):
    """What the weights maximise; the last axis has the tracks."""
    return np.log(weights @ RIGHT.T).sum(-1) + np.log(weights).sum(-1)


# The weights


def test_no_point_of_a_fine_grid_is_better_than_the_weights():
    steps = np.arange(1, 200) / 200
    grid = np.array([(a, b, 1 - a - b) for a, b in itertools.product(steps, steps) if a + b < 1])
    found = fit_weights(RIGHT)
    values = objective(grid)
    assert objective(found) >= values.max()
    np.testing.assert_allclose(found, grid[values.argmax()], atol=0.006)
    assert found.sum() == pytest.approx(1)


def test_the_objective_never_falls_from_step_to_step(monkeypatch):
    values = []
    for n_steps in range(40):
        monkeypatch.setattr(mixture, "_N_STEPS", n_steps)
        values.append(objective(fit_weights(RIGHT)))
    assert (np.diff(values) >= -1e-12).all()
    assert values[1] > values[0]


def test_without_labels_the_weights_are_alike():
    np.testing.assert_allclose(fit_weights(RIGHT[:0]), 1 / 3)


def test_labels_that_tell_no_tracks_apart_leave_the_weights_alike():
    np.testing.assert_allclose(fit_weights(np.repeat(RIGHT[:, :1], 3, axis=1)), 1 / 3)


def test_many_labels_say_more_than_few():
    few, many = (fit_weights(np.tile([0.3, 0.9], (n, 1)))[1] for n in (2, 200))
    assert 0.5 < few < 0.8 < 0.95 < many


def test_a_label_of_weight_two_counts_as_two_and_one_of_weight_zero_not_at_all():
    each = np.arange(len(RIGHT)) % 3.0
    repeated = np.repeat(RIGHT, each.astype(int), axis=0)
    np.testing.assert_allclose(fit_weights(RIGHT, each), fit_weights(repeated), atol=1e-8)
    same = fit_weights(RIGHT, np.ones(len(RIGHT)))
    np.testing.assert_array_equal(same, fit_weights(RIGHT))
    assert abs(fit_weights(RIGHT, each) - same).max() > 0.01


def test_the_order_of_tracks_and_of_labels_does_not_matter():
    order = [2, 0, 1]
    found = fit_weights(RIGHT[::-1][:, order])
    np.testing.assert_allclose(found, fit_weights(RIGHT)[order], atol=1e-8)


def test_a_track_that_was_never_asked_has_hardly_any_weight():
    right = np.column_stack([np.full(50, 0.8), np.zeros(50)])
    assert fit_weights(right)[1] < 0.03


def test_a_probability_below_the_floor_counts_as_the_floor():
    right = np.tile([0.9, 0.6], (30, 1))
    low = right.copy()
    right[0, 0], low[0, 0] = mixture._LEAST, 1e-9
    np.testing.assert_array_equal(fit_weights(right), fit_weights(low))


def test_one_surprise_does_not_decide():
    right = np.tile([0.9, 0.6], (30, 1))
    right[0, 0] = 0.0  # the good track was sure, and wrong once
    assert fit_weights(right)[0] > 0.7


def test_labels_that_no_track_foresaw_give_numbers():
    np.testing.assert_allclose(fit_weights(np.zeros((4, 2))), 0.5)


# The mean


def test_a_mixture_is_the_weighted_mean_and_leaves_its_parts_as_they_were():
    parts = [RNG.dirichlet(np.ones(4), 6) for _ in range(3)]
    before = [part.copy() for part in parts]
    mixed = mix(parts, [0.5, 0.3, 0.2])
    np.testing.assert_allclose(mixed, np.tensordot([0.5, 0.3, 0.2], parts, 1))
    np.testing.assert_allclose(mixed.sum(1), 1)
    for part, old in zip(parts, before):
        np.testing.assert_array_equal(part, old)


def test_one_track_alone_is_passed_on_to_the_bit():
    assert mix([RIGHT], [1.0]) is RIGHT
