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
from glnn.cli.main import main
from glnn.engine.presets import resolve_settings
from glnn.parallel.checkpoint import PAGE
from glnn.parallel.fit import FitPlan, fit_rows
from glnn.peers import ALONE

WORKER = Path(__file__).with_name("worker.py")


@pytest.fixture(scope="module")
def worker():
    spec = importlib.util.spec_from_file_location("parallel_worker", WORKER)
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
def fitted(request, tmp_path_factory):
    """The folder that so many processes left, and their number."""
    folder = tmp_path_factory.mktemp(f"over-{request.param}")
    code, _, err = finished(torchrun(request.param, WORKER, folder))
    assert code == 0, err
    return folder, request.param


@pytest.mark.parametrize("case", ["paper", "default", "no graph"])
def test_several_processes_give_the_answer_of_one(worker, fitted, case):
    preset, changes, *which = worker.CASES[case]
    one = GLNNClassifier(preset, random_state=0, **changes).fit(*worker.arguments(*which))
    many = GLNNClassifier.load(fitted[0] / case)
    assert many.choices_ == one.choices_
    assert abs(many.graph_ - one.graph_).max() < 1e-5
    assert np.abs(many.label_distributions_ - one.label_distributions_).max() < 1e-5
    assert many.certificate_.converged
    assert many.certificate_.n_pairs_checked == one.certificate_.n_pairs_checked
    new = worker.arguments(*which)[0][:7] * 1.5
    assert np.abs(many.predict_proba(new) - one.predict_proba(new)).max() < 1e-5


def test_the_largest_array_shrinks_with_the_number_of_processes(worker, fitted):
    folder, size = fitted
    alone = worker.largest_held(ALONE)
    notes = [json.loads(path.read_text()) for path in folder.glob("held-*.json")]
    assert len(notes) == size
    assert max(note["largest"] for note in notes) <= 1.2 * alone / size


def test_a_process_that_dies_ends_all_and_the_fit_goes_on_later(tmp_path):
    run, state = tmp_path / "run", tmp_path / "state"
    args = ["-m", "glnn", "fit", "block_model", "--epochs", "40", "--preset", "paper"]
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
    many, history = GLNNClassifier.load(run), (run / "history.jsonl").read_text().splitlines()
    assert len(page["history"]) < len(history) == 120
    one = tmp_path / "one"
    single = ["fit", "block_model", "--epochs", "40", "--preset", "paper", "--out", str(one)]
    assert main([*single, "--quiet"]) == 0
    one = GLNNClassifier.load(one)
    assert np.abs(many.label_distributions_ - one.label_distributions_).max() < 1e-5


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


def test_threads_that_share_a_fit_collect_it_in_the_first(load, together):
    plan = FitPlan(resolve_settings("paper", changes={"n_epochs": 5}), 0, "cpu")
    whole, *others = together(3, lambda peers: fit_rows(peers, load, plan))
    assert others == [None, None]
    alone = fit_rows(ALONE, load, plan)
    assert np.abs(whole.probabilities - alone.probabilities).max() < 1e-6
    assert abs(whole.adjacency - alone.adjacency).max() < 1e-9
    model = whole.model(load().features)
    assert (model.predict_proba(load().features) == whole.probabilities).all()
