"""One fitted estimator and many threads; fits side by side."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from glnn import GLNNClassifier

QUICK = {"n_epochs": 5, "n_rounds": 1, "random_state": 0, "calibrate": None}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    classes = np.arange(60) % 3
    x = rng.normal(size=(60, 4)) + 3 * classes[:, None]
    return x, np.where(np.arange(60) < 20, classes, -1), rng.normal(size=(200, 4)) + 3


def test_eight_threads_predict_what_one_predicts(data):
    x, y, new = data
    model = GLNNClassifier(**QUICK).fit(x, y)
    serial = [model.predict_proba(row[None]) for row in new]
    with ThreadPoolExecutor(8) as pool:
        rounds = [pool.map(model.predict_proba, [row[None] for row in new]) for _ in range(8)]
        for found in rounds:
            np.testing.assert_array_equal(np.array(list(found)), np.array(serial))


def test_fits_in_threads_are_those_of_one_thread(data):
    x, y, _ = data

    def fit(seed):
        return GLNNClassifier(**(QUICK | {"random_state": seed})).fit(x, y).label_distributions_

    serial = [fit(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for one, other in zip(pool.map(fit, range(4)), serial):
            np.testing.assert_array_equal(one, other)
