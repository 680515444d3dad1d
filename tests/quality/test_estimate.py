import re

import numpy as np
import pytest

from glnn.quality.conformal import ConformalSets
from glnn.quality.estimate import estimate, set_coverage
from glnn.quality.held_out import HeldOut
from glnn.quality.plain import NodeProblem

CLASSES = np.concatenate([np.arange(80) % 2, [2]])
PROBLEM = NodeProblem(np.eye(81), None, CLASSES, np.arange(81))


def oracle(hidden):
    return 0.05 + 0.85 * np.eye(3)[CLASSES]


def test_a_fit_that_knows_everything_is_judged_right_and_calibrated():
    told = []
    found = estimate(
        PROBLEM, oracle, np.array(["a", "b", "c"]), compared=("majority",), watch=told.append
    )
    assert found.metrics["accuracy"].value == 1
    assert found.verdict.kind == "good"
    assert told == [*(f"fold {k} of 5" for k in range(1, 6)), "majority class"]
    assert found.probabilities[:80].max(1).min() > 0.9  # it says 0.9, and is always right


def test_single_labels_and_classes_that_are_never_predicted_are_said():
    found = estimate(
        PROBLEM,
        lambda hidden: np.tile([0.8, 0.1, 0.1], (81, 1)),
        np.array(["a", "b", "c"]),
        n_folds=2,
        compared=(),
    )
    assert found.notes[0] == "classes with a single label train but cannot be judged: c"
    assert "never predicted where their labels are hidden: b" in found.notes[1]


def test_coverage_is_measured_with_sets_of_other_folds(drawn):
    judged = drawn(300)
    fold = np.arange(300) % 3
    held_out = HeldOut(judged.probabilities, judged.classes, fold)
    right = []
    for number in range(3):
        own = fold == number
        rest = HeldOut(judged.probabilities, np.where(own, -1, judged.classes), fold)
        inside = ConformalSets.of(rest).contains(judged.probabilities[own], 0.1)
        right.extend(inside[np.arange(own.sum()), judged.classes[own]])
    found = set_coverage(held_out, 0.1)
    assert found.value == pytest.approx(np.mean(right))


def test_too_few_labels_have_no_coverage(drawn):
    judged = drawn(9)
    assert (
        set_coverage(HeldOut(judged.probabilities, judged.classes, np.arange(9) % 3), 0.1) is None
    )


def test_classes_that_are_otherwise_frequent_without_a_label_are_spoken_of():
    classes = np.concatenate([np.arange(60) % 2, np.zeros(90), np.ones(10)]).astype(int)
    raw = 0.1 + 0.8 * np.eye(2)[classes]
    raw[:60:6] = raw[:60:6, ::-1]  # a third of the first class is mistaken
    labels = np.where(np.arange(160) < 60, classes, -1)
    problem = NodeProblem(np.eye(160), None, labels, np.arange(60))
    names = np.array(["a", "b"])
    found = estimate(problem, lambda hidden: raw, names, compared=())
    (said,) = (note for note in found.notes if "otherwise frequent" in note)
    share = int(re.search(r"rows without a label \(a about (\d+) %, 50 % among labels", said)[1])
    assert 85 <= share <= 100  # 90 of 100
    weighted = estimate(problem, lambda hidden: raw, names, compared=(), class_weight="balanced")
    assert not any("otherwise frequent" in note for note in weighted.notes)
