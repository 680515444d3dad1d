import threading

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from glnn.engine.classifier import Labels
from glnn.engine.problem import FitProblem
from glnn.engine.trainer import Validation
from glnn.peers import Peers


class ThreadPeers(Peers):
    """Several ranks as threads of one process: what they exchange is checked, not how fast."""

    def __init__(self, rank, size, slots, barrier):
        self.rank, self.size, self._slots, self._barrier = rank, size, slots, barrier

    def _everyones(self, value):
        self._slots[self.rank] = value
        self._barrier.wait(60)
        values = list(self._slots)
        self._barrier.wait(60)
        return values

    def total(self, part):
        return sum(self._everyones(np.array(part)))

    def total_number(self, part):
        return float(sum(self._everyones(float(part))))

    def largest(self, part):
        return max(self._everyones(float(part)))

    def same(self, number):
        return self._everyones(number)[0]

    def total_(self, part):
        return part.copy_(sum(self._everyones(part.clone())))

    def told(self, array, speaker):
        return np.array(self._everyones(array)[speaker])

    def swapped(self, parts):
        return [np.array(given[self.rank]) for given in self._everyones(list(parts))]

    def rotated(self, sent, received, shift):
        came = self._everyones(sent.clone())[(self.rank - shift) % self.size]
        assert came.shape == received.shape
        return received.copy_(came)


def run_together(size, work):
    """Call ``work(peers)`` in every rank; return the answers in order."""
    slots, barrier = [None] * size, threading.Barrier(size)
    answers, errors = [None] * size, []

    def run(rank):
        try:
            answers[rank] = work(ThreadPeers(rank, size, slots, barrier))
        except Exception as error:
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    real = [e for e in errors if not isinstance(e, threading.BrokenBarrierError)]
    if errors:
        raise (real or errors)[0]
    return answers


@pytest.fixture
def together():
    return run_together


@pytest.fixture
def symmetric():
    """A random symmetric CSR matrix with loops, and some rows without entries."""
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((83, 83)) * (rng.random((83, 83)) < 0.08))
    dense[[5, 40], :] = dense[:, [5, 40]] = 0
    return sp.csr_matrix(dense + np.triu(dense, 1).T)


@pytest.fixture
def words():
    """Bags of words with a graph: features, graph, classes."""
    rng = np.random.default_rng(1)
    classes = np.arange(150) % 3
    same = classes[:, None] == classes[None]
    upper = np.triu(rng.random((150, 150)) < np.where(same, 0.08, 0.01), 1)
    graph = sp.csr_matrix((upper | upper.T).astype(np.float64))
    likely = np.arange(45)[None] % 3 == classes[:, None]
    counts = rng.random((150, 45)) < np.where(likely, 0.3, 0.08)
    return sp.csr_matrix(counts.astype(np.float32)), graph, classes


@pytest.fixture
def load(words):
    """What loads the whole problem of the bags of words."""
    features, graph, classes = words
    chosen = Validation(torch.arange(30, 60), torch.from_numpy(classes[30:60]))

    def loaded():
        labels = Labels(np.arange(30), classes[:30], 150, 3)
        return FitProblem(features.copy(), labels, graph, chosen)

    return loaded
