import dataclasses
import errno
import itertools
import json
import os
import sys

import numpy as np
import pytest

from glnn.data import files
from glnn.exceptions import InputError, OutputError
from glnn.report.run_folder import (
    RUN_FILES,
    prepare_folder,
    write_run,
)
from glnn.report.text import verdict_line


@pytest.fixture(scope="module")
def fitted(tested_run):
    run = tested_run[0]
    return run.source, run.results, run.model


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_file_is_written_and_old_ones_do_not_survive(fitted, tmp_path):
    (tmp_path / "graph.png").write_text("old")
    (tmp_path / "mine.txt").write_text("mine")
    assert write_run(tmp_path, *fitted) == ()
    assert {path.name for path in tmp_path.iterdir()} == {*RUN_FILES, "mine.txt"}
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    epochs = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["loss"] for line in epochs] == fitted[2].history_.column("loss")


def test_without_matplotlib_only_the_picture_is_missing(fitted, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    (line,) = write_run(tmp_path, *fitted)
    assert "glnn[report]" in line
    assert {path.name for path in tmp_path.iterdir()} == set(RUN_FILES) - {"graph.png"}


def test_metrics_hold_what_was_measured_and_numbers_that_json_lacks_become_null(fitted, tmp_path):
    source, results, model = fitted
    odd = dataclasses.replace(results, seconds={"odd": np.inf})
    write_run(tmp_path, source, odd, model)
    page = json.loads((tmp_path / "metrics.json").read_text())
    assert next(iter(page.items())) == ("verdict", verdict_line(results))
    assert page["seconds"]["odd"] is None
    test = results.split.test
    right = (results.predictions == results.labels)[test].mean()
    assert page["evaluation"]["metrics"]["accuracy"]["value"] == right
    assert page["graph"]["n_edges"] == results.graph_facts.n_edges
    assert page["labels"] == {"split": "per_class", "seed": 0} | {
        "n_train": 9,
        "n_validation": 0,
        "n_test": 291,
    }


def test_a_folder_with_files_is_refused_unless_it_may_be_replaced(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "x").touch()
    with pytest.raises(InputError, match="--overwrite"):
        prepare_folder(run, overwrite=False)
    prepare_folder(run, overwrite=True).release()
    prepare_folder(run / "a" / "b", overwrite=False).release()
    assert list(tmp_path.iterdir()) == [run]
    with pytest.raises(InputError, match="must be a folder"):
        prepare_folder(run / "x", overwrite=True)
    with pytest.raises(OutputError, match="must be writable"):
        prepare_folder(run / "x" / "y", overwrite=True)


def test_whenever_the_power_fails_the_old_or_the_new_run_is_whole(
    fitted, tmp_path, power_cuts, monkeypatch
):
    source, results, model = fitted
    run = tmp_path / "run"
    write_run(run, *fitted)
    old = contents(run)
    cuts = power_cuts(tmp_path)
    with monkeypatch.context() as patch:
        cuts.watch(patch, (files, "exchange_folders"))
        write_run(run, source, dataclasses.replace(results, facts={"seed": "7"}), model)
    new = contents(run)
    assert old["metrics.json"] != new["metrics.json"]
    for state in cuts.states():
        files.remove_leftovers(state / "run")
        assert contents(state / "run") in (old, new)
    assert cuts.n_cuts > 4 * len(RUN_FILES)


@pytest.mark.parametrize("n_writes", range(0, len(RUN_FILES), 3))
def test_a_disk_that_fills_up_while_a_run_is_written_leaves_the_earlier_run(
    fitted, tmp_path, monkeypatch, n_writes
):
    run, calls = tmp_path / "run", itertools.count()
    write_run(run, *fitted)
    old = contents(run)

    def full(handle):
        if next(calls) >= 2 * n_writes:  # a file and its folder are forced to the disk in turn
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"No space left.*unchanged"):
        write_run(run, *fitted)
    assert contents(run) == old
    assert list(tmp_path.iterdir()) == [run]
