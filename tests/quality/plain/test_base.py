import dataclasses

import numpy as np
import pytest
import torch

from glnn.engine.trainer import Trainer
from glnn.exceptions import InputError
from glnn.quality.plain import PLAIN_METHODS
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


def test_a_training_keeps_its_best_epoch_and_says_how_long_it_took(blocks):
    problem, _, _ = blocks
    method = PLAIN_METHODS["knn_gcn"]
    task = method.build(problem, 0)
    method.train(task, problem)
    validation = problem.validation_set()
    with torch.no_grad():
        kept = validation.measure(task.scores())[0].item()
    last = method.build(problem, 0)
    Trainer(n_epochs=200, learning_rate=0.01).fit(last, None)
    with torch.no_grad():
        assert kept < validation.measure(last.scores())[0].item()
    assert 0 < method.fit_predict(problem, 0).seconds < 60
