import numpy as np
import pytest

from glnn.engine.classifier import ClassifierTask
from glnn.engine.trained import Trained, has_collapsed, is_better, is_worse


def found(loss, accuracy):
    task = object.__new__(ClassifierTask)  # which network it was plays no part
    return Trained(task, np.zeros((1, 2)), loss, accuracy)


BEFORE = found(0.5, 0.8)


@pytest.mark.parametrize(("loss", "better"), [(0.489, True), (0.491, False)])
def test_another_choice_must_have_a_clearly_lower_loss(loss, better):
    assert is_better(found(loss, 0.1), BEFORE) is better
    assert is_better(found(loss, 0.1), None)


@pytest.mark.parametrize(
    ("loss", "accuracy", "worse"),
    [(0.6, 0.79, True), (0.6, 0.8, False), (0.5, 0.79, False), (0.4, 0.9, False)],
)
def test_a_round_is_worse_if_loss_and_accuracy_both_are(loss, accuracy, worse):
    assert is_worse(found(loss, accuracy), BEFORE) is worse
    assert not is_worse(found(loss, accuracy), None)
    assert not is_worse(found(None, None), BEFORE)


def test_a_round_has_collapsed_if_it_lost_five_points():
    assert has_collapsed(found(0.1, 0.74), BEFORE)
    assert not has_collapsed(found(9.0, 0.76), BEFORE)
    assert not has_collapsed(found(None, None), BEFORE)
