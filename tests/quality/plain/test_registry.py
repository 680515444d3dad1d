"""Every plain method keeps the same promises."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from glnn.exceptions import InputError
from glnn.quality.plain import PLAIN_METHODS, get_plain
from glnn.quality.plain.logistic_regression import N_FOLDS, PENALTIES

METHODS = list(PLAIN_METHODS.values())


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_labels_outside_training_and_validation_are_never_seen(method, blocks):
    problem, truth, test = blocks
    lies = truth.copy()
    lies[test] = (lies[test] + 1) % 3
    told = dataclasses.replace(problem, labels=lies)
    honest, lied = (method.fit_predict(p, seed=0).probabilities for p in (problem, told))
    np.testing.assert_array_equal(honest, lied)
    np.testing.assert_allclose(honest.sum(1), 1, atol=1e-6)


def test_the_majority_comes_first_since_all_others_must_beat_it():
    assert list(PLAIN_METHODS) == ["majority", "logistic_regression", "label_spreading", "knn_gcn"]


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'knn_gcn'"):
        get_plain("knngcn")


def test_no_plain_method_imports_pytorch_geometric():
    code = "import sys, glnn.quality.plain; sys.exit('torch_geometric' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_recorded_results_were_made_with_these_settings():
    assert {name: vars(method.settings) for name, method in PLAIN_METHODS.items()} == {
        "majority": {},
        "logistic_regression": {"inverse_penalty": None, "max_iter": 2000},
        "label_spreading": {"n_neighbors": 7, "max_iter": 100, "alpha": 0.2},
        "knn_gcn": {
            "n_epochs": 200,
            "learning_rate": 0.01,
            "weight_decay": 5e-4,
            "patience": None,
            "n_hidden": 16,
            "dropout": 0.5,
            "n_neighbors": 20,
        },
    }
    assert (PENALTIES, N_FOLDS) == ((0.1, 1.0, 10.0, 100.0, 1000.0), 3)
