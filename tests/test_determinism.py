"""The same seed gives the same bits: again, in a fresh process, and in workers of joblib."""

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed

from glnn import GLNNClassifier


def fit_digest(seed):
    """Return the digest of all that a fit answers, computed in one thread."""
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng(5)
    classes = np.arange(40) % 2
    x = rng.normal(size=(40, 6)) + 2 * classes[:, None]
    graph = np.array([np.arange(40), (np.arange(40) + 2) % 40])
    model = GLNNClassifier(n_epochs=5, n_rounds=2, random_state=seed)
    model.fit(x, np.where(np.arange(40) < 18, classes, -1), graph, folds=2)
    assert len(model.mixture_) == 4  # all tracks of the preset were trained
    weights = np.array(list(model.mixture_.values()))
    new = model.predict_proba(x + 0.05)
    parts = (model.label_distributions_, model.graph_.data, new, weights)
    return hashlib.sha256(b"".join(np.ascontiguousarray(p).tobytes() for p in parts)).hexdigest()


def test_a_second_fit_has_the_same_bits_and_another_seed_has_others():
    assert fit_digest(0) == fit_digest(0) != fit_digest(1)


@pytest.mark.slow
def test_a_fresh_process_and_workers_of_joblib_have_the_same_bits():
    here = [fit_digest(seed) for seed in (0, 1)]
    command = [sys.executable, str(Path(__file__))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [here[0], *here]


if __name__ == "__main__":
    workers = Parallel(n_jobs=2)(delayed(fit_digest)(seed) for seed in (0, 1))
    sys.stdout.write(" ".join([fit_digest(0), *workers]))
