import numpy as np

from glnn.quality.balance import balanced_gain
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
