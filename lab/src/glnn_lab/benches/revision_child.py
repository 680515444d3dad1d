"""Child process of :mod:`glnn_lab.benches.revisions`: one fit per line of the input.

It is started by its path and imports only ``glnn.GLNNClassifier``, which every commit has.
"""

import json
import sys
import time
from typing import Any

import numpy as np
import scipy.sparse as sp


def fit_arrays(asked: dict[str, Any]) -> dict[str, Any]:
    """Fit to the arrays of a file; return time, epochs and test accuracy."""
    from glnn import GLNNClassifier

    with np.load(asked["data"]) as file:
        stored = dict(file)
    features, graph = (_matrix(stored, name) for name in ("features", "graph"))
    labels, test = stored["labels"], stored["test"]
    seen = np.full_like(labels, -1)
    known = np.concatenate([stored["train"], stored["val"]])
    seen[known] = labels[known]
    validation = stored["val"] if stored["val"].size else None
    began, cpu_began = time.perf_counter(), time.process_time()
    model = GLNNClassifier(asked["preset"], random_state=asked["seed"])
    model.fit(features, seen, graph, validation)
    return {
        "seconds": round(time.perf_counter() - began, 4),
        "cpu_seconds": round(time.process_time() - cpu_began, 4),
        "n_epochs": int(model.n_iter_),
        "accuracy": float((model.transduction_ == labels)[test].mean()),
    }


def _matrix(stored: dict[str, np.ndarray], name: str) -> sp.csr_matrix:
    parts = (stored[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
    return sp.csr_matrix(tuple(parts), shape=tuple(stored[f"{name}_shape"]))


def main() -> None:
    """Print the path of the library, then one result for each line of the input."""
    import glnn

    answer = {"library": glnn.__file__}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    for line in sys.stdin:
        try:
            answer = fit_arrays(json.loads(line))
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
