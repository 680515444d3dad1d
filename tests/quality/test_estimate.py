import json

import numpy as np
import pytest

from glnn.data.labels import make_folds
from glnn.quality.estimate import (
    draw_evaluation,
    estimate,
    set_coverage,
)
from glnn.quality.folds import HeldOut, hold_out
from glnn.quality.labelling import ConformalSets
from glnn.quality.metrics import ScoredPredictions
from glnn.quality.rivals import NodeProblem, choose_rivals

# Evaluation


def judge(problem, refit, classes, n_folds=5, **more):
    """Return the estimate of a fit by its predictions without the labels of each fold."""
    folds = make_folds(problem.labels, n_folds, 0)
    return estimate(problem, hold_out(refit, problem.labels, folds), folds, classes, **more)


@pytest.fixture
def found(rng):
    classes = np.arange(90) % 3
    problem = NodeProblem(rng.normal(size=(90, 4)), None, classes, np.arange(90))
    raw = rng.dirichlet(np.ones(3), 90) + 0.7 * np.eye(3)[classes]
    return judge(
        problem,
        lambda hidden: raw / raw.sum(1, keepdims=True),
        np.array(["x", "<y>", "z"]),
        n_folds=3,
        rivals=choose_rivals(["majority"], has_graph=False),
    )


def test_the_confusion_matrix_counts_what_predictions_say(found):
    frame = found.predictions
    assert found.confusion.sum() == len(frame) == 90
    accuracy = (frame["label"] == frame["predicted"]).mean()
    assert np.trace(found.confusion) / 90 == pytest.approx(accuracy)
    assert found.metrics["accuracy"].value == pytest.approx(accuracy)


def test_plain_values_are_ready_for_json_and_begin_with_the_verdict(found):
    page = json.loads(json.dumps(found.to_dict()))
    assert next(iter(page.items())) == ("verdict", found.verdict.sentence)
    assert page["n_labels"] == page["comparison"]["n_labels"] == 90
    assert page["comparison"]["kind"] == found.verdict.kind
    assert [rival["name"] for rival in page["rivals"]] == ["majority"]
    assert page["confusion"]["true_by_predicted"] == found.confusion.tolist()


# Estimate

CLASSES = np.concatenate([np.arange(80) % 2, [2]])
PROBLEM = NodeProblem(np.eye(81), None, CLASSES, np.arange(81))


def test_a_note_says_of_classes_with_fewer_labels_than_folds_that_one_is_always_hidden():
    few = np.append(CLASSES[:80], [2, 2])  # two labels of the last class, in five folds
    names = np.array(["a", "b", "c"])
    for labels, is_said in ((few, True), (CLASSES % 2, False)):
        one = NodeProblem(np.eye(len(labels)), None, labels, np.arange(len(labels)), n_classes=3)
        told = judge(one, lambda hidden, c=labels: 0.05 + 0.85 * np.eye(3)[c], names).notes
        assert any("fewer labels than folds" in note for note in told) == is_said


def oracle(hidden):
    return 0.05 + 0.85 * np.eye(3)[CLASSES]


def test_a_fit_that_knows_everything_is_judged_right_and_calibrated():
    told = []
    found = judge(
        PROBLEM,
        oracle,
        np.array(["a", "b", "c"]),
        rivals=choose_rivals(["majority"], has_graph=False),
        progress=told.append,
    )
    assert found.metrics["accuracy"].value == 1
    assert found.verdict.kind == "good"
    assert told == ["largest class"]
    assert found.probabilities[:80].max(1).min() > 0.9  # it says 0.9, and is always right


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


# Plots

pytest.importorskip("matplotlib")


def test_the_table_has_the_share_of_each_true_class(drawn):
    judged = drawn(50)
    kept = ScoredPredictions(
        judged.classes[judged.classes != 2], judged.probabilities[judged.classes != 2]
    )
    figure = draw_evaluation(kept, ["a", "b", "c"])
    curve, table = figure.axes
    assert sum(int(text.get_text()) for text in table.texts) == len(kept)
    counts = np.asarray(table.images[0].get_array())
    np.testing.assert_array_equal(counts[0], np.bincount(kept.predicted[kept.classes == 0]))
    assert curve.get_xlim() == curve.get_ylim() == (0, 1)
