import numpy as np
import pytest

from glnn.quality.held_out import HeldOut
from glnn.quality.suspects import suspect_labels


def found(probabilities, classes):
    p = np.array(probabilities)
    return suspect_labels(HeldOut(p, np.array(classes), np.zeros(len(p))), p)


def test_only_confident_contradictions_are_suspect():
    suspects = found([[0.9, 0.1], [0.1, 0.9], [0.9, 0.1], [0.6, 0.4]], [0, 1, 1, 1])
    assert suspects.nodes.tolist() == [2]
    assert suspects.given.tolist() == [1] and suspects.predicted.tolist() == [0]
    assert suspects.probability.tolist() == [0.9]


def test_the_likeliest_mistake_comes_first():
    suspects = found([[0.85, 0.15], [0.95, 0.05], [0.9, 0.1]], [1, 1, 1])
    assert suspects.nodes.tolist() == [1, 2, 0]


@pytest.mark.parametrize("n_classes", [2, 5])
def test_nothing_is_suspect_where_predictions_are_chance(n_classes):
    p = np.full((20, n_classes), 1 / n_classes)
    assert len(found(p, np.arange(20) % n_classes)) == 0


def test_a_node_without_a_label_is_never_suspect():
    assert len(found([[0.95, 0.05]] * 3, [0, 0, -1])) == 0


def test_a_rare_label_is_not_suspect_for_being_rare():
    classes = np.repeat([0, 1, 2], [72, 13, 5])
    shares = np.bincount(classes) / len(classes)
    assert len(found(np.tile(shares, (len(classes), 1)), classes)) == 0
    told = np.tile(shares, (len(classes), 1))
    told[-1] = [0.99, 0.009, 0.001]
    assert found(told, classes).nodes.tolist() == [len(classes) - 1]
