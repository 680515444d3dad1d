import dataclasses
import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import f1_score

from glnn.engine.folds import make_folds
from glnn.quality.calibration import shrink_class_shares
from glnn.quality.estimate import (
    INTERVAL_NOTE,
    class_weight_gain,
    draw_evaluation,
    estimate,
    estimate_shifted_prior,
    note_prior_shift,
    set_coverage,
)
from glnn.quality.folds import HeldOut, hold_out
from glnn.quality.labelling import ConformalSets
from glnn.quality.metrics import ScoredPredictions, bootstrap_weights
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


def test_the_frame_has_every_metric_of_every_method(found):
    frame = found.to_frame()
    assert set(frame["method"]) == {"GLNN", "largest class"}
    row = frame[(frame["method"] == "GLNN") & (frame["metric"] == "brier")].iloc[0]
    assert row["value"] == found.metrics["brier"].value
    assert (frame["low"] <= frame["high"]).all()


def test_the_summary_opens_with_the_verdict_and_says_how_intervals_are_made(found):
    lines = found.summary().splitlines()
    assert lines[0] == found.verdict.sentence
    assert INTERVAL_NOTE in found.summary()


def test_plain_values_are_ready_for_json_and_begin_with_the_verdict(found):
    page = json.loads(json.dumps(found.to_dict()))
    assert next(iter(page.items())) == ("verdict", found.verdict.sentence)
    assert page["n_labels"] == page["comparison"]["n_labels"] == 90
    assert page["comparison"]["kind"] == found.verdict.kind
    assert [rival["name"] for rival in page["rivals"]] == ["majority"]
    assert page["confusion"]["true_by_predicted"] == found.confusion.tolist()


def test_what_is_shown_is_short_and_escaped(found):
    assert len(repr(found)) < 200
    assert found.verdict.sentence in repr(found)
    assert "<table>" in found._repr_html_()


def test_the_summary_has_a_line_for_each_method_with_the_difference(found):
    (score,) = found.others
    (line,) = (line for line in found.summary().splitlines() if line.startswith("largest class"))
    difference = score.difference
    assert f"({difference.value:+.3f} [{difference.low:+.3f}" in line
    unpaired = dataclasses.replace(found, others=(dataclasses.replace(score, difference=None),))
    assert f"{score.metrics['accuracy']} (-)" in unpaired.summary()


def test_coverage_is_that_of_sets_that_may_miss_a_tenth(found):
    assert found.coverage == set_coverage(found.held_out, 0.1)
    assert found.coverage.value > 0.5


# Estimate

CLASSES = np.concatenate([np.arange(80) % 2, [2]])
PROBLEM = NodeProblem(np.eye(81), None, CLASSES, np.arange(81))


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


def test_single_labels_and_classes_that_are_never_predicted_are_said():
    found = judge(
        PROBLEM,
        lambda hidden: np.tile([0.8, 0.1, 0.1], (81, 1)),
        np.array(["a", "b", "c"]),
        n_folds=2,
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
    found = judge(problem, lambda hidden: raw, names)
    (said,) = (note for note in found.notes if "otherwise frequent" in note)
    share = int(re.search(r"rows without a label \(a about (\d+) %, 50 % among labels", said)[1])
    assert 85 <= share <= 100  # 90 of 100
    weighted = judge(problem, lambda hidden: raw, names, class_weight="balanced")
    assert not any("otherwise frequent" in note for note in weighted.notes)


# Prior shift

NAMES = np.array(["a", "b", "c"])


def of_true_shares(shares, n_rows, rng):
    """Three clouds on a line with these shares; posteriors as if classes were equally frequent."""
    classes = rng.choice(3, n_rows, p=shares)
    x = rng.normal(size=n_rows) + 2 * classes
    likelihood = np.exp(-0.5 * np.square(x[:, None] - 2 * np.arange(3)))
    return classes, likelihood / likelihood.sum(1, keepdims=True)


def test_shares_are_found_from_probabilities_that_assume_others(rng):
    truth = np.array([0.7, 0.2, 0.1])
    classes, q = of_true_shares(truth, 20_000, rng)
    found = estimate_shifted_prior(q, np.full(3, 1 / 3))
    assert_allclose(found, np.bincount(classes) / 20_000, atol=0.02)
    assert found.sum() == pytest.approx(1)


def test_probabilities_that_know_nothing_change_no_share():
    shares = np.array([0.5, 0.3, 0.2])
    assert_allclose(estimate_shifted_prior(np.tile(shares, (50, 1)), shares), shares)


def test_the_line_weights_recall_by_the_shares_elsewhere(rng):
    classes, q = of_true_shares(np.full(3, 1 / 3), 3000, rng)
    judged = ScoredPredictions(classes, q)
    truth = np.array([0.8, 0.1, 0.1])
    others, elsewhere = of_true_shares(truth, 20_000, rng)
    (line,) = note_prior_shift(judged, elsewhere, NAMES)
    accuracy = (elsewhere.argmax(1) == others).mean()
    assert abs(float(line.split("(a about ")[1].split(" ")[0]) / 100 - 0.8) < 0.02
    assert abs(float(line.split()[-2]) / 100 - accuracy) < 0.02


def test_nothing_is_said_where_shares_are_alike_or_no_row_is_left(rng):
    classes, q = of_true_shares(np.full(3, 1 / 3), 3000, rng)
    judged = ScoredPredictions(classes, q)
    assert note_prior_shift(judged, of_true_shares(np.full(3, 1 / 3), 3000, rng)[1], NAMES) == []
    assert note_prior_shift(judged, q[:0], NAMES) == []


# Balanced class weights


def test_a_rare_class_that_is_told_apart_but_never_chosen_gains(rng):
    classes = (rng.random(400) < 0.15).astype(int)
    rare = np.where(classes == 1, 0.4, 0.05)
    judged = ScoredPredictions(classes, np.stack([1 - rare, rare], 1))
    gain = class_weight_gain(judged, bootstrap_weights(400, rng))
    assert gain.value > 0.4 and gain.low > 0


def test_even_classes_have_nothing_to_gain(rng):
    judged = ScoredPredictions(np.arange(40) % 2, rng.dirichlet([1, 1], 40))
    assert class_weight_gain(judged, bootstrap_weights(40, rng)) is None


def test_the_gain_is_that_of_the_classes_most_probable_beside_their_shares(rng):
    classes = np.repeat([0, 1, 2], [240, 45, 15])
    p = rng.dirichlet([2, 1, 1], 300) + 0.5 * np.eye(3)[classes]
    p /= p.sum(1, keepdims=True)
    shares = shrink_class_shares(np.bincount(classes))[0]
    chosen = (p / shares).argmax(1)
    wanted = f1_score(classes, chosen, average="macro") - f1_score(
        classes, p.argmax(1), average="macro"
    )
    gain = class_weight_gain(ScoredPredictions(classes, p), bootstrap_weights(300, rng))
    assert gain.value == pytest.approx(wanted)


# Plots

pytest.importorskip("matplotlib")


def test_the_picture_has_a_reliability_curve_and_all_counts(drawn):
    judged = drawn(50)
    curve, table = draw_evaluation(judged, ["a", "b", "c"]).axes
    assert curve.get_xlabel() == "predicted probability"
    assert sum(int(text.get_text()) for text in table.texts) == 50


def test_the_table_has_the_share_of_each_true_class(drawn):
    judged = drawn(50)
    kept = ScoredPredictions(
        judged.classes[judged.classes != 2], judged.probabilities[judged.classes != 2]
    )
    figure = draw_evaluation(kept, ["a", "b", "c"])
    curve, table = figure.axes
    shares = np.asarray(table.images[0].get_array())
    np.testing.assert_allclose(shares.sum(1), [1, 1, 0])
    counts = np.bincount(kept.predicted[kept.classes == 0], minlength=3)
    np.testing.assert_allclose(shares[0], counts / counts.sum())
    assert curve.get_xlim() == curve.get_ylim() == (0, 1)
