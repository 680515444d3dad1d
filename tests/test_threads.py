"""Work on several threads; one fitted estimator and many threads; fits side by side."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from glnn import GLNNClassifier
from glnn._threads import by_rows, mapped

MANY = 2**20
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


@pytest.mark.parametrize("n_numbers", [1, MANY])
def test_answers_come_in_the_order_of_the_items(n_numbers):
    assert mapped(lambda k: k**2, list(range(50)), n_numbers) == [k**2 for k in range(50)]
    assert mapped(lambda k: k, [], n_numbers) == []


def test_little_work_stays_in_this_thread():
    here = threading.get_ident()
    assert set(mapped(lambda _: threading.get_ident(), [1, 2, 3], 10)) == {here}


def test_an_error_in_a_thread_is_raised_here():
    with pytest.raises(ZeroDivisionError):
        mapped(lambda k: 1 / k, [1, 0], MANY)


@pytest.mark.parametrize("n_rows", [0, 1, 1000, 200_001])
def test_blocks_of_rows_have_the_bits_of_all_rows(n_rows):
    rng = np.random.default_rng(n_rows)
    first, second = rng.normal(size=(n_rows, 5)), rng.normal(size=(n_rows, 3))

    def shares(left, right):
        powers = np.exp(left * right.sum(1, keepdims=True))
        return powers / powers.sum(1, keepdims=True)

    np.testing.assert_array_equal(by_rows(shares, first, second), shares(first, second))
