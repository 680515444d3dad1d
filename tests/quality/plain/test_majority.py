import dataclasses

import numpy as np

from glnn.quality.plain.majority import Majority, class_shares


def test_everybody_gets_the_largest_class_and_its_share_of_the_labels(blocks):
    problem, truth, _ = blocks
    uneven = dataclasses.replace(problem, train=problem.train[:9])
    counts = np.bincount(truth[problem.train[:9]], minlength=3)
    prediction = Majority().fit_predict(uneven, seed=0)
    np.testing.assert_allclose(prediction.probabilities, np.tile(counts / 9, (90, 1)))
    assert (prediction.classes == counts.argmax()).all()


def test_a_class_without_labels_has_no_share(blocks):
    problem, truth, _ = blocks
    partial = dataclasses.replace(problem, train=problem.train[truth[problem.train] != 1])
    assert class_shares(partial)[1] == 0
    assert class_shares(partial).sum() == 1
