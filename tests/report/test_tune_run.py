import json

import pandas as pd
import pytest

from glnn.exceptions import DataFormatError
from glnn.report.sources import Source
from glnn.report.tune_run import TuneOptions, read_settings, run_tuning

pytest.importorskip("optuna")


@pytest.mark.slow
def test_files_say_what_was_found_and_how_good_it_is(tmp_path):
    lines = []
    options = TuneOptions(n_trials=2, folds=2, nested=2, n_epochs=3, goal="log_loss")
    reading = Source("blobs", labels_per_class=4)
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / ".tuning.json.0f.part").write_text("of a worker that was killed")
    trials, judged = run_tuning(reading, options, tmp_path / "search", lines.append)
    assert not list((tmp_path / "search").glob(".*.part"))
    assert len(trials.table) == 2 and len(judged.held_out.hidden_nodes) == 12
    page = json.loads((tmp_path / "search" / "tuning.json").read_text())
    assert page["value"] == trials.value and page["nested"] == judged.to_dict()
    found = read_settings(tmp_path / "search" / "tuning.json")
    assert found.preset == "default" and found.params == trials.params
    assert found.search.values == tuple(row["log_loss"] for row in trials.table)
    assert found.search.is_low_best and found.search.verdict == judged.verdict.sentence
    assert found.search.params["n_steps"] == (None, trials.table[1]["n_steps"])
    assert set(found.search.log) == {"n_neighbors", "learning_rate", "weight_decay"}
    table = pd.read_csv(tmp_path / "search" / "trials.csv")
    assert table["log_loss"].tolist() == [row["log_loss"] for row in trials.table]
    assert (tmp_path / "search" / "trials.png").read_bytes().startswith(b"\x89PNG")
    assert lines[0] == "2 fits for the search, 4 for its nested estimate"
    assert lines[1].endswith("the preset as it is") and lines[1].startswith("trial   1")


GOOD = {"format": "glnn settings", "version": 1, "preset": "paper", "params": {"n_steps": 3}}


def test_a_file_without_trials_has_no_search(tmp_path):
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps(GOOD))
    found = read_settings(path)
    assert (found.preset, found.params, found.search) == ("paper", {"n_steps": 3}, None)


@pytest.mark.parametrize(
    "page",
    [
        [],
        {"format": "other"},
        GOOD | {"version": 2},
        GOOD | {"params": [1]},
        GOOD | {"trials": {"a": 1}, "goal": "accuracy"},
        GOOD | {"trials": [1], "goal": "accuracy"},
        GOOD | {"trials": [{"trial": 0}], "goal": "accuracy"},
        GOOD | {"trials": [{"accuracy": "high"}], "goal": "accuracy"},
        GOOD | {"trials": [{"accuracy": 10**400}], "goal": "accuracy"},
        GOOD | {"trials": [{"accuracy": True}], "goal": "accuracy"},
        GOOD | {"trials": [{"accuracy": 1, "learning_rate": 0}], "goal": "accuracy"},
        GOOD | {"trials": [{"accuracy": 1}], "goal": "accuracy", "nested": 3},
    ],
    ids=str,
)
def test_another_file_is_refused_in_one_line(tmp_path, page):
    path = tmp_path / "tuning.json"
    path.write_text(json.dumps(page))
    with pytest.raises(DataFormatError, match=r"must be a tuning.json of glnn tune") as caught:
        read_settings(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["{", '{"value": NaN', "[" * 100_000, ""])
def test_what_is_no_json_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "tuning.json"
    path.write_text(text)
    with pytest.raises(DataFormatError, match=r"must be a tuning.json of glnn tune"):
        read_settings(path)
