from functools import partial

import numpy as np
import pytest

from glnn import GLNNClassifier, evaluate
from glnn_lab.experiments import trust_answers
from glnn_lab.experiments.trust_answers import (
    calibration,
    coverage,
    noise,
    sets,
    suspects,
    uneven,
)

QUICK = {"n_epochs": 10, "n_rounds": 1}


@pytest.fixture(autouse=True)
def quick_fits(monkeypatch):
    quick = partial(GLNNClassifier, **QUICK)
    monkeypatch.setattr(trust_answers, "GLNNClassifier", quick)
    judged = partial(evaluate, estimator=quick(random_state=0), folds=2)
    monkeypatch.setattr(trust_answers, "evaluate", judged)


def test_noise_is_judged_on_labels_that_no_fit_has_seen():
    found = noise((150, 4, 2, True), 0)
    assert found["says chance"] == 1
    assert 0.3 < found["accuracy"] < 0.7
    assert found["confidence"] >= 0.5


def test_a_draw_is_covered_if_the_truth_lies_within_the_half_width():
    found = coverage(("iris", 30), 0)
    distance = abs(found["estimate"] - found["true accuracy"])
    assert found["covered"] in (0, 1)
    if distance > 2 * found["half width"]:
        assert found["covered"] == 0


@pytest.mark.parametrize("case", [("iris", 5, 20, "auto"), ("iris", 30, 0, "auto")])
def test_errors_are_measured_before_and_after_calibration(case):
    found = calibration(case, 0)
    assert set(found) == {
        f"{when}{what}" for when in ("raw ", "") for what in ("error", "log loss", "accuracy")
    }
    assert found["log loss"] <= found["raw log loss"] + 0.1


def test_the_plain_method_has_the_same_labels(monkeypatch):
    monkeypatch.setattr(trust_answers, "table", lambda name, seed: iris())
    found = uneven(("iris", 30), 0)
    assert found["logistic"] > 0.8
    assert {"none", "balanced"} < set(found)


def iris():
    from sklearn.datasets import load_iris

    return *load_iris(return_X_y=True), None


def test_sets_are_counted_at_hidden_nodes():
    found = sets(("iris", 8), 0)
    assert 0.5 < found["coverage"] <= 1
    assert 0 < found["size"] <= 3


def test_planted_mistakes_are_counted(monkeypatch):
    found = suspects(("iris", 20), 0)
    assert 0 <= found["precision"] <= 1
    assert np.isclose(found["recall"] * 6, round(found["recall"] * 6))  # of six planted ones
