"""Check an installation: versions, optional packages, devices, data, a solve and a fit."""

import os
import platform
import tempfile
import time
from collections.abc import Iterator

from glnn.report.text import EXTRAS, find_version, package_versions

Row = tuple[str, str, str]  # state (ok, note or bad), subject, text


def health_rows() -> Iterator[Row]:
    """Yield the result of each check."""
    found = package_versions()
    yield "ok", "glnn", f"{found['glnn']} on Python {found['python']}, {platform.platform()}"
    for package in ("numpy", "scipy", "torch", "scikit-learn"):
        yield "ok", package, found[package]
    yield from _check_extras()
    yield from _check_devices()
    yield from _check_data()
    yield _check_solver()
    yield _check_fit()


def _check_extras() -> Iterator[Row]:
    for package, extra in EXTRAS.items():
        installed = find_version(package)
        missing = f"not installed; install it with: pip install 'glnn[{extra}]'"
        yield "note" if installed is None else "ok", package, installed or missing


def _check_devices() -> Iterator[Row]:
    import torch

    yield "ok", "cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads"
    if not torch.cuda.is_available():
        yield "note", "cuda", "none; everything runs on the CPU"
    for number in range(torch.cuda.device_count()):
        yield "ok", f"cuda:{number}", torch.cuda.get_device_name(number)


def _check_data() -> Iterator[Row]:
    from glnn.data.datasets import BUILT_IN, DATASETS, data_folders

    yield "ok", "built in", ", ".join(BUILT_IN)
    for folder in data_folders():
        here = [name for name in DATASETS if (folder / f"{name}.npz").is_file()]
        state = "ok" if here else "note"
        yield (
            state,
            "data folder",
            f"{folder}: {', '.join(here) or 'nothing; glnn data fetch NAME'}",
        )


def _check_solver() -> Row:
    """Solve a tiny graph problem."""
    import numpy as np

    from glnn.solver import learn_graph

    learned = learn_graph(np.array([[1.0, 0.0], [1.0, 0.2], [0.0, 1.0]]), n_neighbors=1)
    proven = learned.certificate.converged
    return "ok" if proven else "bad", "solver", str(learned.certificate)


def _check_fit() -> Row:
    """Fit a small table, save and load the model, and compare the predictions."""
    import numpy as np

    from glnn.data.synthetic import blobs
    from glnn.estimator import GLNNClassifier

    data, started = blobs(separation=12.0), time.perf_counter()
    y = np.where(np.arange(data.n_nodes) % 10 == 0, data.labels, -1)
    fitted = GLNNClassifier(n_epochs=20, random_state=0).fit(data.features, y)
    with tempfile.TemporaryDirectory() as folder:
        fitted.save(folder)
        again = GLNNClassifier.load(folder).predict_proba(data.features)
    right = float((fitted.transduction_ == data.labels).mean())
    same = np.array_equal(again, fitted.predict_proba(data.features))
    seconds = time.perf_counter() - started
    text = f"{right:.0%} accuracy after fit, save and load in {seconds:.1f} s"
    return "ok" if same and right > 0.9 else "bad", "self-test", text
