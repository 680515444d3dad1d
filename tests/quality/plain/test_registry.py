"""Every plain method keeps the same promises."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from glnn.exceptions import InputError
from glnn.quality.plain import PLAIN_METHODS, get_plain

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
