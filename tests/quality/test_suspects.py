import numpy as np

from glnn.quality.held_out import HeldOut
from glnn.quality.suspects import suspect_labels


def found(probabilities, classes):
    p = np.array(probabilities)
    return suspect_labels(HeldOut(p, np.array(classes), np.zeros(len(p))), p)


def test_only_confident_contradictions_are_suspect():
    sure, unsure = [0.9, 0.1], [0.55, 0.45]
    suspects = found([sure, sure, sure, [0.1, 0.9], sure, unsure], [0, 0, 0, 1, 1, 1])
    assert suspects.nodes.tolist() == [4]
    assert suspects.given.tolist() == [1] and suspects.predicted.tolist() == [0]
    assert suspects.probability.tolist() == [0.9]


def test_the_likeliest_mistake_comes_first():
    rows = [[0.7, 0.3]] * 4 + [[0.8, 0.2], [0.95, 0.05]] + [[0.2, 0.8]] * 3
    suspects = found(rows, [0] * 4 + [1, 1] + [1] * 3)
    assert suspects.nodes.tolist() == [5, 4]


def test_a_node_without_a_label_is_never_suspect():
    assert len(found([[0.9, 0.1]] * 3, [0, 0, -1])) == 0
