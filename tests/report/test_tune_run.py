import json

import pandas as pd
import pytest

from glnn.exceptions import DataFormatError
from glnn.report.sources import Reading, Source
from glnn.report.tune_run import TuneOptions, read_settings, run_tuning

pytest.importorskip("optuna")


def test_files_say_what_was_found_and_how_good_it_is(tmp_path):
    lines = []
    options = TuneOptions(n_trials=2, folds=2, nested=2, n_epochs=3, goal="log_loss")
    reading = Reading(Source("blobs"), labels_per_class=4)
    trials, judged = run_tuning(reading, options, tmp_path / "search", lines.append)
    assert len(trials.table) == 2 and len(judged.held_out.judged) == 12
    page = json.loads((tmp_path / "search" / "tuning.json").read_text())
    assert page["value"] == trials.value and page["nested"] == judged.to_dict()
    assert read_settings(tmp_path / "search" / "tuning.json") == {
        "preset": "default",
        **trials.params,
    }
    table = pd.read_csv(tmp_path / "search" / "trials.csv")
    assert table["log_loss"].tolist() == [row["log_loss"] for row in trials.table]
    assert (tmp_path / "search" / "trials.png").read_bytes().startswith(b"\x89PNG")
    assert lines[0] == "4 fits for the search, 8 for its nested estimate"
    assert lines[1].endswith("the preset as it is") and lines[1].startswith("trial   1")


@pytest.mark.parametrize("text", ["{", "[]", '{"format": "other"}'])
def test_another_file_is_refused_in_one_line(tmp_path, text):
    path = tmp_path / "tuning.json"
    path.write_text(text)
    with pytest.raises(DataFormatError, match=r"must be a tuning.json of glnn tune"):
        read_settings(path)
