"""Fits over real processes that torchrun starts; see ``worker.py`` for what they do."""

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

import glnn
from glnn import GLNNClassifier
from glnn.distributed import SINGLE_PROCESS
from glnn.engine.checkpoint import PAGE

WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture(scope="module")
def worker():
    spec = importlib.util.spec_from_file_location("several_worker", WORKER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def torchrun(size, *args):
    source = str(Path(glnn.__file__).parents[1])
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": source, "PYTHONWARNINGS": ""}
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command = [*launcher, f"--nproc-per-node={size}", *map(str, args)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=environment, **pipes)


def finished(process, timeout=120):
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.slow)])
def fitted(request, tmp_path_factory, worker):
    """The folder that so many processes left, and their number."""
    folder = tmp_path_factory.mktemp(f"over-{request.param}")
    worker.wide_file(folder)
    code, _, err = finished(torchrun(request.param, WORKER, folder))
    assert code == 0, err
    return folder, request.param


@pytest.mark.parametrize("case", ["paper", "no graph"])
def test_what_several_processes_leave_is_a_model_like_that_of_one(worker, fitted, case):
    preset, changes, has_graph = worker.CASES[case]
    whole, graph = worker.data(), None
    if has_graph:
        graph = whole.graph
    one = GLNNClassifier(preset, random_state=0, **changes)
    one.fit(whole.features, worker.labels_seen(whole.labels), graph, folds=worker.N_FOLDS)
    many = GLNNClassifier.load(fitted[0] / case)
    assert many.mixture_.keys() == one.mixture_.keys()
    for name, weight in one.mixture_.items():  # processes draw other noise
        assert many.mixture_[name] == pytest.approx(weight, abs=0.15)
    if len(one.mixture_) == 1:
        assert many.choices_ == one.choices_
    assert many.certificate_.converged
    assert many.graph_.shape == one.graph_.shape
    assert abs(many.graph_ - many.graph_.T).max() == 0
    rest = np.arange(60, 243)
    right = [(m.transduction_ == whole.labels)[rest].mean() for m in (one, many)]
    assert abs(right[0] - right[1]) < 0.1
    np.testing.assert_array_equal(many.predict_proba(whole.features), many.label_distributions_)
    new = [
        (m.predict(whole.features[rest] * 1.01) == whole.labels[rest]).mean() for m in (one, many)
    ]
    assert abs(new[0] - new[1]) < 0.1


def test_the_largest_array_shrinks_with_the_number_of_processes(worker, fitted):
    folder, size = fitted
    alone = worker.largest_held(SINGLE_PROCESS, folder / "wide.npz")
    notes = [json.loads(path.read_text()) for path in folder.glob("held-*.json")]
    assert len(notes) == size
    assert max(note["largest"] for note in notes) <= 1.2 * alone / size


@pytest.mark.slow
def test_a_process_that_dies_ends_all_and_the_fit_goes_on_later(tmp_path):
    run, state = tmp_path / "run", tmp_path / "state"
    args = [
        "-m",
        "glnn",
        "fit",
        "block_model",
        "--epochs",
        "40",
        "--graph",
        "none",
        "--preset",
        "paper",
    ]
    args += ["--out", run, "--checkpoint", state, "--quiet"]
    launcher = torchrun(2, *args)
    killed = _kill_one(launcher, state / PAGE)
    code, _, err = finished(launcher)
    assert code != 0
    lines = [line for line in err.splitlines() if "glnn: error" in line]
    assert len(lines) == 1
    assert "another process of this fit has ended" in lines[0]
    assert "glnn/" not in err.replace(str(killed), "")  # no traceback of ours
    assert not run.exists() or not any(run.iterdir())
    page = json.loads((state / PAGE).read_text())
    code, _, err = finished(torchrun(2, *args))
    assert code == 0, err
    assert len(page["history"]) < len((run / "history.jsonl").read_text().splitlines()) == 80
    straight = tmp_path / "straight"
    args[args.index(run)], args[args.index(state)] = straight, tmp_path / "other"
    code, _, err = finished(torchrun(2, *args))
    assert code == 0, err
    resumed, uninterrupted = (GLNNClassifier.load(folder) for folder in (run, straight))
    for name in ("label_distributions_", "transduction_"):
        np.testing.assert_array_equal(getattr(resumed, name), getattr(uninterrupted, name))
    assert abs(resumed.graph_ - uninterrupted.graph_).max() == 0


def _kill_one(launcher, page):
    """Kill the second process as soon as the first round is on disk."""
    deadline = time.monotonic() + 60
    while not page.exists():
        assert time.monotonic() < deadline and launcher.poll() is None
        time.sleep(0.02)
    for child in psutil.Process(launcher.pid).children(recursive=True):
        if child.environ().get("RANK") == "1":
            child.kill()
            return child.pid
    raise AssertionError("the second process was not found")


@pytest.mark.slow
def test_bad_input_is_said_once(tmp_path):
    code, out, err = finished(torchrun(2, "-m", "glnn", "fit", tmp_path / "none.csv"))
    assert code != 0
    assert sum("glnn: error" in line for line in err.splitlines()) == 1
    assert out == ""
