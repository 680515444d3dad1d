import dataclasses
from pathlib import Path

import numpy as np
import pytest

from glnn.engine.callbacks import Progress
from glnn.report.estimate_run import (
    closing_lines,
    folds_wanted,
    never_predicted,
    suspect_lines,
    with_estimate,
)
from glnn.report.fit_run import FitOptions, Start, run_fit
from glnn.report.sources import choose_split

OPTIONS = FitOptions(n_epochs=15)


@pytest.fixture(scope="module")
def run(opened_blobs):
    """A fit to sixty labels, four of them wrong, judged in three folds."""
    data = opened_blobs.data
    labels = data.labels.copy()
    known = np.concatenate([np.flatnonzero(labels == c)[:20] for c in range(3)])
    wrong = known[[0, 5, 25, 45]]
    labels[wrong] = (labels[wrong] + 1) % 3
    labels[np.setdiff1d(np.arange(data.n_nodes), known)] = -1
    opened = dataclasses.replace(
        opened_blobs, data=data.replace(labels=labels, splits={}, name="mine")
    )
    split = choose_split(opened.data, None, 0)
    before, model = run_fit(Start.of(Path(), opened, split), OPTIONS)
    told = []
    after = with_estimate(before, model, OPTIONS, 3, told.append)
    return before, after, model, told, wrong


def test_without_test_labels_five_folds_judge_and_with_them_none(run, results):
    before = run[0]
    assert folds_wanted(before, None) == 5
    assert folds_wanted(before, 3) == 3
    assert folds_wanted(before, 0) == 0  # --no-estimate
    assert folds_wanted(results, None) == 0
    assert folds_wanted(results, 4) == 4


def test_single_labels_cannot_be_judged(results):
    nodes = np.array([0, 10])
    none = np.empty(0, np.int64)
    split = dataclasses.replace(results.split, train=nodes, test=none)
    assert folds_wanted(dataclasses.replace(results, split=split), None) == 0


def test_results_and_model_are_calibrated_by_the_folds(run):
    before, after, model, _, _ = run
    np.testing.assert_array_equal(after.probabilities, model.label_distributions_)
    np.testing.assert_array_equal(before.probabilities, model.raw_distributions_)
    assert model.held_out_ is after.estimate.held_out
    assert after.seconds["estimate"] > 0


def test_folds_and_plain_methods_are_the_stages_and_epochs_are_told(run):
    told = run[3]
    stages = [event.stage for event in told if event.epoch == 0]
    assert stages[:3] == ["fold 1 of 3", "fold 2 of 3", "fold 3 of 3"]
    assert stages[3] == "majority class"
    assert Progress("classifier 1", 1, 0) in told


def test_doubtful_labels_are_named_and_the_rest_counted(run):
    _, after, _, _, wrong = run
    doubted = dataclasses.replace(after, suspects=tuple(wrong.tolist()))
    lines = suspect_lines(doubted, most=1)
    assert lines[0].startswith("4 given labels may be wrong")
    assert f"  {after.data.node_ids[wrong[0]]}: given" in lines[1]
    assert lines[2].startswith("  and 3 more")
    assert lines[0] in closing_lines(doubted)


def test_a_class_that_no_node_gets_is_said(results):
    assert never_predicted(results) is None
    one = dataclasses.replace(results, probabilities=np.tile([0.9, 0.1], (20, 1)))
    assert never_predicted(one).endswith("birch & $x$")
    assert never_predicted(one) in closing_lines(one)
