from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from glnn.data import Split
from glnn.estimator import GLNNClassifier
from glnn.exceptions import InputError, OutputError
from glnn.report.fit_run import FitOptions, Start, prepared, run_fit
from glnn.report.run_folder import write_run
from glnn.report.sources import Reading, Source, choose_split

NONE = np.empty(0, dtype=np.int64)


def test_results_agree_with_the_estimator(opened_blobs):
    split, seen = choose_split(opened_blobs.data, 3, 0), []
    results, model = run_fit(
        Start.of(Path(), opened_blobs, split),
        FitOptions(n_epochs=5),
        compared=("label_spreading",),
        watch=lambda event: seen.append(event.stage),
    )
    labels, test = opened_blobs.data.labels, split.test
    numbers = np.searchsorted(model.classes_, model.transduction_)
    np.testing.assert_array_equal(results.predictions, results.classes[numbers])
    assert results.scores[0].accuracy == np.mean(results.predictions[test] == labels[test])
    np.testing.assert_array_equal(results.adjacency.toarray(), model.graph_.toarray())
    assert [score.method for score in results.scores] == ["GLNN", "label spreading"]
    assert results.settings["head"]["n_epochs"] == 5
    assert seen[-1] == "label spreading"
    assert "graph 1" in seen


@pytest.mark.parametrize("calibrates", [True, False])
def test_labels_are_hidden_for_calibration_only_where_nothing_else_calibrates(
    opened_blobs, calibrates
):
    start = Start.of(Path(), opened_blobs, choose_split(opened_blobs.data, 6, 0))
    results, model = run_fit(start, FitOptions(n_epochs=3), calibrates=calibrates)
    assert (model.held_out_ is not None) is calibrates
    is_raw = np.array_equal(model.raw_distributions_, results.probabilities)
    assert is_raw is not calibrates
    assert (results.calibrated_by == "hidden_third") is calibrates
    everything = Split(start.split.train, NONE, NONE, name="all")
    no_test = Start.of(Path(), opened_blobs, everything)
    _, model = run_fit(no_test, FitOptions(n_epochs=3), calibrates=calibrates)
    assert model.held_out_ is None  # the folds of the estimate will do it


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (FitOptions("papr"), "paper"),
        (FitOptions(head="gnc"), "gcn"),
        (FitOptions(seed=-1), "--seed"),
        (FitOptions(threads=0), "--threads"),
        (FitOptions(n_epochs=0), "n_epochs"),
        (FitOptions(device="nowhere"), "device"),
        (FitOptions(class_weight="foo"), "--class-weight must be balanced, got 'foo'"),
    ],
)
def test_wrong_options_are_refused_before_any_work(options, words):
    with pytest.raises(InputError, match=words):
        options.check()


def test_expected_epochs_follow_rounds():
    settings = FitOptions(n_epochs=7).settings()
    expected = FitOptions(n_epochs=7).expected_epochs(has_graph=False)
    assert expected == 7 * settings.no_graph.n_rounds
    assert FitOptions("literal", n_epochs=7).expected_epochs(has_graph=True) == 7


READING = Reading(Source("blobs"), labels_per_class=4)


def test_preparing_refuses_wrong_input_and_takes_the_place_of_the_run(tmp_path):
    with pytest.raises(InputError, match="preset"):
        prepared(READING, FitOptions("papre"))
    start = prepared(READING, FitOptions(), tmp_path / "run")
    with pytest.raises(OutputError, match="one writer"):
        prepared(READING, FitOptions(), tmp_path / "run")
    start.release()
    assert list(tmp_path.iterdir()) == []  # nothing is made before there is something to write


def test_of_several_processes_each_has_its_rows_and_the_first_has_results(tmp_path, together):
    options = FitOptions("paper", n_epochs=5)

    def work(peers):
        start = prepared(READING, options, tmp_path / "run", peers=peers)
        assert start.opened.data.features.nnz == 0  # nobody keeps them all
        found = run_fit(start, options, compared=("logistic_regression",), peers=peers)
        write_run(start.folder, start.opened, *found)
        return start.rows.features, found[0]

    rows, results = zip(*together(2, work))
    whole, *_ = READING.open()
    assert abs(sp.vstack(rows) - whole.data.features).max() == 0
    assert results[1] is None
    assert [score.method for score in results[0].scores] == ["GLNN", "logistic regression"]
    model = GLNNClassifier.load(tmp_path / "run")
    np.testing.assert_array_equal(model.label_distributions_, results[0].probabilities)
    assert abs(model.graph_ - results[0].adjacency).max() == 0
    known = model.predict_proba(whole.data.features)
    np.testing.assert_array_equal(known, results[0].probabilities)
