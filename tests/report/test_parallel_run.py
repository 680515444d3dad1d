import numpy as np
import pytest

from glnn.exceptions import InputError
from glnn.peers import ALONE
from glnn.report.fit_run import FitOptions, run_fit
from glnn.report.parallel_run import fit_together, prepared, reported
from glnn.report.sources import Reading, Source

OPTIONS = FitOptions("paper", n_epochs=5)
READING = Reading(Source("blobs"), labels_per_class=4)


def test_a_run_through_the_shared_path_finds_what_the_plain_one_finds(tmp_path):
    start = prepared(ALONE, READING, OPTIONS, tmp_path / "run", overwrite=False)
    fitted = fit_together(ALONE, READING, OPTIONS, start.n_nodes, tmp_path / "state")
    run = reported(READING, OPTIONS, fitted, ("logistic_regression",))
    plain, _ = run_fit(*READING.open(), OPTIONS)
    assert np.abs(run.results.probabilities - plain.probabilities).max() < 1e-5
    assert [score.method for score in run.results.scores] == ["GLNN", "logistic regression"]
    assert start.n_epochs == OPTIONS.expected_epochs(has_graph=False)
    assert (tmp_path / "state" / "checkpoint.json").is_file()


def test_preparing_refuses_wrong_input_and_makes_the_folder(tmp_path):
    with pytest.raises(InputError, match="preset"):
        prepared(ALONE, READING, FitOptions("papre"), None, overwrite=False)
    start = prepared(ALONE, READING, OPTIONS, tmp_path / "run", overwrite=False)
    assert start.folder.is_dir()
    start.withdraw(ALONE)
    assert not start.folder.exists()
