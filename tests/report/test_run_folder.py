import dataclasses
import errno
import itertools
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from glnn.data import files
from glnn.data.files import sibling_path
from glnn.engine.callbacks import History
from glnn.exceptions import InputError, OutputError
from glnn.report.run import FitOptions, RunInputs, run_fit
from glnn.report.run_folder import (
    RUN_FILES,
    collect_metrics,
    describe_data,
    prepare_folder,
    write_run,
)
from glnn.report.sources import choose_split
from glnn.report.text import verdict_line


@pytest.fixture(scope="module")
def fitted(opened_blobs):
    split = choose_split(opened_blobs.data, 3, 0)
    return run_fit(RunInputs.of(Path(), opened_blobs, split), FitOptions(n_epochs=3))


def test_every_file_is_written_and_old_ones_do_not_survive(fitted, opened_blobs, tmp_path):
    results, model = fitted
    (tmp_path / "graph.png").write_text("old")
    (tmp_path / "mine.txt").write_text("mine")
    assert write_run(tmp_path, opened_blobs, results, model) == ()
    assert {path.name for path in tmp_path.iterdir()} == {*RUN_FILES, "mine.txt"}
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert len(History.read(tmp_path / "history.jsonl")) == model.n_iter_


def test_without_matplotlib_only_the_picture_is_missing(
    fitted, opened_blobs, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    (line,) = write_run(tmp_path, opened_blobs, *fitted)
    assert "glnn[report]" in line
    assert {path.name for path in tmp_path.iterdir()} == set(RUN_FILES) - {"graph.png"}


def test_metrics_hold_what_was_measured_and_are_json(results):
    page = collect_metrics(results)
    assert next(iter(page.items())) == ("verdict", verdict_line(results))
    assert set(page["accuracy"]) == {"validation", "test"}  # none on labels that trained
    assert page["accuracy"]["test"] == results.accuracy("test")
    assert page["graph"]["n_edges"] == results.facts.n_edges
    assert page["certificate"]["max_violation"] == 1e-9
    assert page["labels"] == {
        "split": "per_class",
        "seed": 0,
        "n_train": 4,
        "n_validation": 0,
        "n_test": 16,
    }
    assert json.loads(json.dumps(page, allow_nan=False)) == page


def test_accuracy_on_nodes_that_chose_the_epoch_is_told_from_that_on_others(results):
    nodes = {"val": np.array([0]), "test": np.arange(5, 20)}  # node 0 alone is predicted wrong
    split = dataclasses.replace(results.split, train=np.arange(1, 5), **nodes)
    page = collect_metrics(dataclasses.replace(results, split=split))
    assert page["accuracy"] == {"validation": 0.0, "test": 1.0}


def test_the_data_page_says_how_rows_are_read(opened_blobs):
    page = describe_data(opened_blobs)
    assert page["name"] == "blobs"
    assert page["options"]["encode"] == "error"
    assert page["id_column"] is None


def test_a_folder_with_files_is_refused_unless_it_may_be_replaced(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "x").touch()
    with pytest.raises(InputError, match="--overwrite"):
        prepare_folder(run, overwrite=False)
    prepare_folder(run, overwrite=True).release()
    prepare_folder(run / "a" / "b", overwrite=False).release()
    assert list(tmp_path.iterdir()) == [run]


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "x").touch()
    with pytest.raises(InputError, match="must be a folder"):
        prepare_folder(tmp_path / "x", overwrite=True)
    with pytest.raises(OutputError, match="must be writable"):
        prepare_folder(tmp_path / "x" / "y", overwrite=True)


def test_the_place_of_a_run_is_taken_until_it_is_released(tmp_path):
    lock = prepare_folder(tmp_path / "run", overwrite=False)
    with pytest.raises(OutputError, match="one writer"):
        prepare_folder(tmp_path / "run", overwrite=True)
    lock.release()
    prepare_folder(tmp_path / "run", overwrite=True).release()


def test_what_a_killed_run_has_left_is_removed_by_the_next(tmp_path):
    left = sibling_path(tmp_path / "run", "new")
    left.mkdir()
    (left / "model.json").write_text("half")
    prepare_folder(tmp_path / "run", overwrite=False).release()
    assert not left.exists()


def test_whenever_the_power_fails_the_old_or_the_new_run_is_whole(
    fitted, opened_blobs, tmp_path, power_cuts, monkeypatch
):
    results, model = fitted
    run = tmp_path / "run"
    write_run(run, opened_blobs, results, model)
    old = contents(run)
    cuts = power_cuts(tmp_path)
    with monkeypatch.context() as patch:
        cuts.watch(patch, (files, "exchange_folders"))
        write_run(run, opened_blobs, dataclasses.replace(results, seed=7), model)
    new = contents(run)
    assert old["metrics.json"] != new["metrics.json"]
    for state in cuts.states():
        files.remove_leftovers(state / "run")
        assert contents(state / "run") in (old, new)
    assert cuts.n_cuts > 4 * len(RUN_FILES)


@pytest.mark.parametrize("n_writes", range(0, len(RUN_FILES), 3))
def test_a_disk_that_fills_up_while_a_run_is_written_leaves_the_earlier_run(
    fitted, opened_blobs, tmp_path, monkeypatch, n_writes
):
    run, calls = tmp_path / "run", itertools.count()
    write_run(run, opened_blobs, *fitted)
    old = contents(run)

    def full(handle):
        if next(calls) >= 2 * n_writes:  # a file and its folder are forced to the disk in turn
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"No space left.*unchanged"):
        write_run(run, opened_blobs, *fitted)
    assert contents(run) == old
    assert list(tmp_path.iterdir()) == [run]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_numbers_that_json_lacks_become_null(fitted, opened_blobs, tmp_path):
    results, model = fitted
    results.seconds["odd"] = np.inf
    write_run(tmp_path, opened_blobs, results, model)
    del results.seconds["odd"]
    assert json.loads((tmp_path / "metrics.json").read_text())["seconds"]["odd"] is None
