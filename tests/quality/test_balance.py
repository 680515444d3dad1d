import numpy as np
import pytest
from sklearn.metrics import f1_score

from glnn.quality.balance import balanced_gain
from glnn.quality.calibration import class_shares
from glnn.quality.intervals import bootstrap_weights
from glnn.quality.metrics import Judged


def test_a_rare_class_that_is_told_apart_but_never_chosen_gains(rng):
    classes = (rng.random(400) < 0.15).astype(int)
    rare = np.where(classes == 1, 0.4, 0.05)
    judged = Judged(classes, np.stack([1 - rare, rare], 1))
    gain = balanced_gain(judged, bootstrap_weights(400, rng))
    assert gain.value > 0.4 and gain.low > 0


def test_even_classes_have_nothing_to_gain(rng):
    judged = Judged(np.arange(40) % 2, rng.dirichlet([1, 1], 40))
    assert balanced_gain(judged, bootstrap_weights(40, rng)) is None


def test_the_gain_is_that_of_the_classes_most_probable_beside_their_shares(rng):
    classes = np.repeat([0, 1, 2], [240, 45, 15])
    p = rng.dirichlet([2, 1, 1], 300) + 0.5 * np.eye(3)[classes]
    p /= p.sum(1, keepdims=True)
    shares = class_shares(np.bincount(classes))[0]
    chosen = (p / shares).argmax(1)
    wanted = f1_score(classes, chosen, average="macro") - f1_score(
        classes, p.argmax(1), average="macro"
    )
    gain = balanced_gain(Judged(classes, p), bootstrap_weights(300, rng))
    assert gain.value == pytest.approx(wanted)
