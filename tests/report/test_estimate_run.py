import dataclasses

import numpy as np

from glnn.engine.callbacks import Progress
from glnn.report.estimate_run import folds_wanted


def test_without_test_labels_five_folds_judge_and_with_them_none(judged_run, results):
    before = judged_run[0]
    assert folds_wanted(before, None) == 5
    assert folds_wanted(before, 3) == 3
    assert folds_wanted(before, 0) == 0  # --no-estimate
    assert folds_wanted(results, None) == 0
    assert folds_wanted(results, 4) == 4
    n_labels = np.bincount(results.data.labels[results.split.train]).max()
    assert folds_wanted(results, 500) == max(5, n_labels)  # more would repeat fits


def test_single_labels_cannot_be_judged(results):
    nodes = np.array([0, 10])
    none = np.empty(0, np.int64)
    split = dataclasses.replace(results.split, train=nodes, test=none)
    assert folds_wanted(dataclasses.replace(results, split=split), None) == 0


def test_results_and_model_are_calibrated_by_the_folds(judged_run):
    before, after, model, _, _ = judged_run
    np.testing.assert_array_equal(after.probabilities, model.label_distributions_)
    np.testing.assert_array_equal(before.probabilities, model.raw_distributions_)
    assert model.held_out_ is after.estimate.held_out
    assert after.seconds["estimate"] > 0
    assert (before.calibrated_by, after.calibrated_by) == (None, "folds")
    assert after.calibration is model.calibration_


def test_folds_and_plain_methods_are_the_stages_and_epochs_are_told(judged_run):
    told = judged_run[3]
    stages = [event.stage for event in told if event.epoch == 0]
    assert stages[:3] == ["fold 1 of 3", "fold 2 of 3", "fold 3 of 3"]
    assert stages[3] == "majority class"
    assert Progress("classifier 1", 1, 0) in told
