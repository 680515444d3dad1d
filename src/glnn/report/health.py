"""Check an installation: versions, optional packages, devices, data, and a short fit."""

import os
import platform
import tempfile
import time
from collections.abc import Iterator

from glnn._utils import EXTRAS, install_hint
from glnn.report.text import find_version, package_versions

Row = tuple[str, str, str]  # state (ok, note or bad), subject, text


def health_rows() -> Iterator[Row]:
    """Yield the result of each check."""
    import torch

    from glnn.data.datasets import BUILT_IN, DATASETS, data_folders

    yield "ok", "python", f"{platform.python_version()} on {platform.platform()}"
    for package, found in package_versions().items():
        if package != "python":
            yield "ok", package, found
    for package in EXTRAS:
        installed = find_version(package)
        missing = f"not installed; install it with: {install_hint(package)}"
        yield "note" if installed is None else "ok", package, installed or missing
    yield "ok", "cpu", f"{os.cpu_count()} cores, {torch.get_num_threads()} threads"
    gpus = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
    yield "ok" if gpus else "note", "cuda", ", ".join(gpus) or "none; everything runs on the CPU"
    yield "ok", "built-in data", ", ".join(BUILT_IN)
    for folder in data_folders():
        here = [name for name in DATASETS if (folder / f"{name}.npz").is_file()]
        listed = ", ".join(here) or "nothing; glnn data fetch NAME"
        yield "ok" if here else "note", "data folder", f"{folder}: {listed}"
    yield _check_fit()


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
    is_proven = fitted.certificate_ is not None and fitted.certificate_.converged
    seconds = time.perf_counter() - started
    text = f"{right:.0%} accuracy after fit, save and load in {seconds:.1f} s"
    return "ok" if same and is_proven and right > 0.9 else "bad", "self-test", text
