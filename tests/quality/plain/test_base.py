import dataclasses

import numpy as np
import pytest

from glnn.exceptions import InputError
from glnn.quality.plain.base import Prediction, TrainSettings, in_columns


def test_the_predicted_class_is_the_most_probable():
    prediction = Prediction(np.array([[0.2, 0.8], [0.9, 0.1]]))
    assert prediction.classes.tolist() == [1, 0]


def test_settings_are_checked():
    with pytest.raises(InputError, match="n_epochs"):
        TrainSettings(n_epochs=0)
    with pytest.raises(InputError, match="patience"):
        dataclasses.replace(TrainSettings(), patience=0)


def test_unseen_classes_get_probability_zero():
    assert in_columns(np.array([[1.0]]), np.array([1]), 2).tolist() == [[0.0, 1.0]]
