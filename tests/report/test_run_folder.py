import json
import sys
from pathlib import Path

import numpy as np
import pytest

from glnn.engine.history import History
from glnn.exceptions import InputError
from glnn.report.fit_run import FitOptions, Start, run_fit
from glnn.report.run_folder import (
    OWN_FILES,
    data_page,
    metrics,
    prepare_folder,
    remove_if_empty,
    write_run,
)
from glnn.report.sources import choose_split
from glnn.report.words import verdict_line


@pytest.fixture(scope="module")
def fitted(opened_blobs):
    split = choose_split(opened_blobs.data, 3, 0)
    return run_fit(Start.of(Path(), opened_blobs, split), FitOptions(n_epochs=3))


def test_every_file_is_written_and_old_ones_do_not_survive(fitted, opened_blobs, tmp_path):
    results, model = fitted
    (tmp_path / "graph.png").write_text("old")
    (tmp_path / "mine.txt").write_text("mine")
    assert write_run(tmp_path, opened_blobs, results, model) == ()
    assert {path.name for path in tmp_path.iterdir()} == {*OWN_FILES, "mine.txt"}
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    assert len(History.read(tmp_path / "history.jsonl")) == model.n_iter_


def test_without_matplotlib_only_the_picture_is_missing(
    fitted, opened_blobs, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    (line,) = write_run(tmp_path, opened_blobs, *fitted)
    assert "glnn[report]" in line
    assert {path.name for path in tmp_path.iterdir()} == set(OWN_FILES) - {"graph.png"}


def test_metrics_hold_what_was_measured_and_are_json(results):
    page = metrics(results)
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


def test_the_data_page_says_how_rows_are_read(opened_blobs):
    page = data_page(opened_blobs)
    assert page["name"] == "blobs"
    assert page["options"]["encode"] == "error"
    assert page["id_column"] is None


def test_a_folder_with_files_is_refused_unless_it_may_be_replaced(tmp_path):
    (tmp_path / "x").touch()
    with pytest.raises(InputError, match="--overwrite"):
        prepare_folder(tmp_path, overwrite=False)
    assert prepare_folder(tmp_path, overwrite=True) == tmp_path
    assert prepare_folder(tmp_path / "a" / "b", overwrite=False).is_dir()


def test_a_file_in_the_way_is_refused(tmp_path):
    (tmp_path / "x").touch()
    with pytest.raises(InputError, match="must be a folder"):
        prepare_folder(tmp_path / "x", overwrite=True)
    with pytest.raises(InputError, match="must be writable"):
        prepare_folder(tmp_path / "x" / "y", overwrite=True)


def test_only_an_empty_folder_is_taken_back(tmp_path):
    for name in ("empty", "full"):
        (tmp_path / name).mkdir()
    (tmp_path / "full" / "x").touch()
    for name in ("empty", "full", "none"):
        remove_if_empty(tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


def test_numbers_that_json_lacks_become_null(fitted, opened_blobs, tmp_path):
    results, model = fitted
    results.seconds["odd"] = np.inf
    write_run(tmp_path, opened_blobs, results, model)
    del results.seconds["odd"]
    assert json.loads((tmp_path / "metrics.json").read_text())["seconds"]["odd"] is None
