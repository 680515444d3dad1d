import numpy as np
import pytest

from glnn.report.tested import OnTestNodes, Score

RNG = np.random.default_rng(0)
LABELS = np.arange(300) % 3


def answers(share_right):
    """Sure answers, of which so many are right."""
    said = np.where(RNG.random(300) < share_right, LABELS, (LABELS + 1) % 3)
    return 0.7 * np.eye(3)[said] + 0.1


def score(share_right, name="svm"):
    return Score(name.upper(), None, 1.0, probabilities=answers(share_right), name=name)


def test_answers_at_random_are_no_better_than_chance():
    noise = OnTestNodes.of(LABELS, RNG.dirichlet(np.ones(3), 300), np.arange(3), 3)
    assert noise.verdict.kind == "chance"
    assert noise.verdict.sentence.startswith("no better than chance: about ")


@pytest.mark.parametrize(("other", "kind"), [(0.99, "plain"), (0.8, "level"), (0.5, "good")])
def test_a_compared_method_is_told_apart_node_by_node(other, kind):
    found = OnTestNodes.of(LABELS, answers(0.8), np.arange(3), 3, [score(other)])
    assert found.verdict.kind == kind
    assert "SVM" in found.verdict.sentence


def test_the_largest_class_alone_is_no_rival_and_who_was_not_run_is_left_out():
    others = [score(0.99, "majority"), Score("none", None, 0.0, "not installed")]
    found = OnTestNodes.of(LABELS, answers(0.8), np.arange(3), 3, others)
    assert [other.name for other in found.others] == ["majority"]
    assert found.verdict.kind == "good"


def test_nodes_of_a_class_that_had_no_label_count_as_mistakes():
    said = np.tile([0.9, 0.1], (300, 1))  # the third class, always
    found = OnTestNodes.of(LABELS, said, np.array([2, 0]), 3, [score(1.0)])
    assert set(found.own.judged.predicted.tolist()) == {2}
    assert found.own.metrics["accuracy"].value == pytest.approx(1 / 3)
    assert found.others[0].metrics["accuracy"].value == 1.0
    assert found.others[0].difference.value == pytest.approx(-2 / 3)


def test_what_is_written_of_a_score_is_plain():
    found = Score("SVM", 0.5, 1.0, probabilities=answers(0.5), name="svm").to_dict()
    assert found == {"method": "SVM", "accuracy": 0.5, "seconds": 1.0, "note": ""}
