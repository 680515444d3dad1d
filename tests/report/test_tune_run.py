import json

import pandas as pd
import pytest

from glnn import GLNNClassifier
from glnn.exceptions import CheckpointError
from glnn.report.sources import Source
from glnn.report.tune_run import read_settings, run_tuning
from glnn.tuning import TunedClassifier

pytest.importorskip("optuna")


@pytest.mark.slow
def test_files_say_what_was_found_and_how_good_it_is(tmp_path):
    lines = []
    model = GLNNClassifier(n_epochs=3, random_state=0, calibrate=None)
    search = TunedClassifier(model, n_trials=2, folds=2, goal="log_loss")
    reading = Source("blobs", labels_per_class=4)
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / ".tuning.json.0f.part").write_text("of a worker that was killed")
    trials, judged = run_tuning(reading, search, tmp_path / "search", lines.append, nested=2)
    assert not list((tmp_path / "search").glob(".*.part"))
    assert len(trials.table) == 2 and len(judged.held_out.hidden_nodes) == 12
    page = json.loads((tmp_path / "search" / "tuning.json").read_text())
    assert page["nested"] == judged.to_dict()
    found = read_settings(tmp_path / "search" / "tuning.json")
    assert found.preset == "default" and found.params == trials.params
    assert found.search.values == tuple(row["log_loss"] for row in trials.table)
    assert found.search.verdict == judged.verdict.sentence
    assert found.search.params["n_steps"] == (None, trials.table[1]["n_steps"])
    table = pd.read_csv(tmp_path / "search" / "trials.csv")
    assert table["log_loss"].tolist() == [row["log_loss"] for row in trials.table]
    assert lines[0] == "2 fits for the search, 4 for its nested estimate"
    assert lines[1].endswith("the preset as it is") and lines[1].startswith("trial   1")


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"preset": "paper"}', "[" * 100_000])
def test_another_file_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "tuning.json"
    path.write_text(text)
    with pytest.raises(CheckpointError, match=r"tuning.json of glnn tune") as caught:
        read_settings(path)
    assert "\n" not in str(caught.value)
