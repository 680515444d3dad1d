"""Fit many times in one process; memory, file handles and threads must not grow.

python scripts/soak.py --fits 1000
"""

import argparse
import gc
import threading
import warnings
from pathlib import Path

import numpy as np

from glnn import GLNNClassifier


def state():
    """Return resident memory in MB, open file handles, and threads of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return (
        pages * 4096 / 2**20,
        len(list(Path("/proc/self/fd").iterdir())),
        threading.active_count(),
    )


def fit(seed):
    """Fit and predict something small, with or without a graph."""
    rng = np.random.default_rng(seed)
    classes = np.arange(60) % 3
    x = rng.normal(size=(60, 5)) + 2 * classes[:, None]
    graph = np.array([np.arange(60), (np.arange(60) + 3) % 60]) if seed % 2 else None
    y = np.where(rng.random(60) < 0.4, classes, -1)
    y[:6] = classes[:6]
    model = GLNNClassifier(n_epochs=3, n_rounds=1, random_state=seed, calibrate=None)
    return model.fit(x, y, graph).predict(x + 0.1)


def main():
    """Fit, and compare the end with half time; the first half fills caches."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fits", type=int, default=1000)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    states = []
    for number in range(options.fits):
        fit(number)
        if number in (options.fits // 2, options.fits - 1):
            gc.collect()
            states.append(state())
    (before, handles, threads), (after, handles_after, threads_after) = states
    growth = after / before - 1
    print(f"{options.fits} fits: {before:.0f} MB at half time, {after:.0f} MB at the end")
    print(
        f"memory {growth:+.1%}, handles {handles} -> {handles_after}, threads {threads} -> "
        f"{threads_after}"
    )
    is_flat = growth < 0.05 and handles_after <= handles and threads_after <= threads
    raise SystemExit(0 if is_flat else 1)


if __name__ == "__main__":
    main()
