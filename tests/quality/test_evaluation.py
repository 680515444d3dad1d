import dataclasses
import json

import numpy as np
import pytest

from glnn.quality.estimate import estimate, set_coverage
from glnn.quality.evaluation import HOW
from glnn.quality.plain import NodeProblem


@pytest.fixture
def found(rng):
    classes = np.arange(90) % 3
    problem = NodeProblem(rng.normal(size=(90, 4)), None, classes, np.arange(90))
    raw = rng.dirichlet(np.ones(3), 90) + 0.7 * np.eye(3)[classes]
    return estimate(
        problem,
        lambda hidden: raw / raw.sum(1, keepdims=True),
        np.array(["x", "<y>", "z"]),
        n_folds=3,
        compared=("majority",),
    )


def test_the_confusion_matrix_counts_what_predictions_say(found):
    frame = found.predictions
    assert found.confusion.sum() == len(frame) == 90
    accuracy = (frame["label"] == frame["predicted"]).mean()
    assert np.trace(found.confusion) / 90 == pytest.approx(accuracy)
    assert found.metrics["accuracy"].value == pytest.approx(accuracy)


def test_the_frame_has_every_metric_of_every_method(found):
    frame = found.to_frame()
    assert set(frame["method"]) == {"GLNN", "majority class"}
    row = frame[(frame["method"] == "GLNN") & (frame["metric"] == "brier")].iloc[0]
    assert row["value"] == found.metrics["brier"].value
    assert (frame["low"] <= frame["high"]).all()


def test_the_summary_opens_with_the_verdict_and_says_how_intervals_are_made(found):
    lines = found.summary().splitlines()
    assert lines[0] == found.verdict.sentence
    assert HOW in found.summary()


def test_plain_values_are_ready_for_json_and_begin_with_the_verdict(found):
    page = json.loads(json.dumps(found.to_dict()))
    assert next(iter(page.items())) == ("verdict", found.verdict.sentence)
    assert page["n_labels"] == 90
    assert page["confusion"]["true_by_predicted"] == found.confusion.tolist()


def test_what_is_shown_is_short_and_escaped(found):
    assert len(repr(found)) < 200
    assert found.verdict.sentence in repr(found)
    assert "<table>" in found._repr_html_()


def test_the_summary_has_a_line_for_each_method_with_the_difference(found):
    (score,) = found.others
    (line,) = (line for line in found.summary().splitlines() if line.startswith("majority class"))
    difference = score.difference
    assert f"({difference.value:+.3f} [{difference.low:+.3f}" in line
    unpaired = dataclasses.replace(found, others=(dataclasses.replace(score, difference=None),))
    assert f"majority class       {score.metrics['accuracy']} (-)" in unpaired.summary()


def test_coverage_is_that_of_sets_that_may_miss_a_tenth(found):
    assert found.coverage == set_coverage(found.held_out, 0.1)
    assert found.coverage.value > 0.5
