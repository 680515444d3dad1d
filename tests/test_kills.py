"""Runs that are killed at random moments, and go on to the bits of one that was not."""

import json
import multiprocessing
import os
import random
import shutil
import time

import pytest

from glnn.cli.main import main

N_KILLS = int(os.environ.get("GLNN_KILLS", "200"))
FIT = ["fit", "wine", "--labels-per-class", "4", "--folds", "2", "--epochs", "5"]
FIT += ["--set", "n_rounds=1", "--rivals", "none", "--quiet"]
TUNE = ["tune", "wine", "--labels-per-class", "4", "--trials", "3", "--folds", "2", "--nested", "0"]
TUNE += ["--epochs", "5", "--quiet"]
TIMED = ("results.npz", "report.html")  # which show how long things took


@pytest.fixture(scope="module")
def started():
    """Start the command in a process of its own, which shares what was imported before."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["glnn.cli.main", "glnn.report.run_folder"])

    def start(args):
        process = context.Process(target=main, args=([str(arg) for arg in args],))
        process.start()
        return process

    return start


@pytest.fixture(scope="module")
def whole(started, tmp_path_factory):
    """A run that nothing interrupted, an earlier one, and how long a run takes."""
    folder = tmp_path_factory.mktemp("whole")
    for name, seed in (("earlier", 1), ("run", 0)):
        began = time.monotonic()
        started([*FIT, "--seed", seed, "--out", folder / name]).join()
    return contents(folder / "run"), folder / "earlier", time.monotonic() - began


def contents(folder):
    """The files of a run, without the times in them."""
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.name not in TIMED}
    found["metrics.json"] = untimed(json.loads(found["metrics.json"]))
    return found


def untimed(page):
    if isinstance(page, dict):
        return {name: untimed(part) for name, part in page.items() if name != "seconds"}
    return [untimed(part) for part in page] if isinstance(page, list) else page


def is_killed(process, seconds):
    """Kill a process that is not done after so many seconds, and say whether it was not."""
    process.join(seconds)
    if not process.is_alive():
        return False
    process.kill()
    process.join()
    return True


def kill_and_go_on(started, whole, folder, rng):
    """Kill a run once or more, look at what it leaves, and let it end; return the kills."""
    straight, earlier, seconds = whole
    run, n_kills = folder / "run", 0
    shutil.copytree(earlier, run)
    command = [*FIT, "--out", run, "--overwrite"]
    while True:
        n_kills += is_killed(started(command), rng.uniform(0, seconds))
        left = contents(run)
        assert left in (contents(earlier), straight)
        command = [*FIT, "--out", run, "--overwrite", "--resume"]
        if rng.random() < 0.5 and n_kills:
            started(command).join()
            break
    assert contents(run) == straight
    assert list(folder.iterdir()) == [run]  # no state, no lock, nothing half written
    return n_kills


def test_a_run_that_is_killed_goes_on_to_the_same_bits(started, whole, tmp_path):
    assert kill_and_go_on(started, whole, tmp_path, random.Random(0)) > 0


@pytest.fixture(scope="module")
def searched(started, tmp_path_factory):
    """A search that nothing interrupted, and how long it takes."""
    pytest.importorskip("optuna")
    folder, began = tmp_path_factory.mktemp("whole") / "search", time.monotonic()
    started([*TUNE, "--out", folder]).join()
    return found(folder), time.monotonic() - began


def found(folder):
    """What a search found; its storage also knows of trials that were killed."""
    return [(folder / name).read_bytes() for name in ("tuning.json", "trials.csv")]


def kill_a_search(started, searched, folder, rng):
    """Kill a search once or more, and let it end; return the kills."""
    straight, seconds = searched
    command, n_kills = [*TUNE, "--out", folder / "search"], 0
    while not n_kills or rng.random() < 0.5:
        n_kills += is_killed(started(command), rng.uniform(0, seconds))
    started(command).join()
    assert found(folder / "search") == straight
    left = {path.name for path in (folder / "search").iterdir()}
    assert left == {"tuning.json", "trials.csv", "study.db"}
    return n_kills


@pytest.mark.slow
def test_a_search_that_is_killed_goes_on_to_the_same_trials(started, searched, tmp_path):
    assert kill_a_search(started, searched, tmp_path, random.Random(0)) > 0


@pytest.mark.slow
def test_as_many_searches_are_killed(started, searched, tmp_path):
    rng, n_kills, number = random.Random(1), 0, 0
    while n_kills < N_KILLS // 4:
        folder = tmp_path / str(number)
        folder.mkdir()
        n_kills += kill_a_search(started, searched, folder, rng)
        shutil.rmtree(folder)
        number += 1
    assert n_kills >= N_KILLS // 4


@pytest.mark.slow
def test_as_many_kills_as_are_asked_for(started, whole, tmp_path):
    rng, n_kills, number = random.Random(N_KILLS), 0, 0
    while n_kills < N_KILLS:
        folder = tmp_path / str(number)
        folder.mkdir()
        n_kills += kill_and_go_on(started, whole, folder, rng)
        shutil.rmtree(folder)
        number += 1
    assert n_kills >= N_KILLS
