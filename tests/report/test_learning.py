import pytest

from glnn.engine.history import History
from glnn.report.learning import chosen_in_words, curves_of, learning_of


def test_the_certificate_is_told_in_sentences(results):
    learning = learning_of(results.history, results.certificate, {"n_rounds": 2})
    assert "best one for its objective" in learning.certificate[0]
    assert len(learning.curves) == 2


@pytest.mark.parametrize("n_rounds", [1, 2])
def test_rounds_after_the_last_that_counts_are_undone(results, n_rounds):
    curves = curves_of(results.history, n_rounds)
    assert [curve.name for curve in curves] == ["round 1", "round 2"]
    assert [curve.undone for curve in curves] == [False, n_rounds == 1]
    assert [value for curve in curves for value in curve.columns["loss"]] == (
        results.history.column("loss")
    )


def test_a_round_that_was_trained_twice_says_so():
    history = History()
    for epoch in (0, 1, 0, 1):
        history.append({"stage": "classifier 1", "epoch": epoch, "loss": float("nan")})
    first, second = curves_of(history, 1)
    assert (first.name, second.name) == ("round 1", "round 1, try 2")
    assert first.columns == {"loss": [None, None]}


def test_choices_are_words():
    words = dict(chosen_in_words({"source": "features", "gate": 0.123456}))
    assert "left out" in words["source"]
    assert "0.123" in words.values()
