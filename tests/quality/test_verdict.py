import numpy as np

from glnn.quality.comparison import MethodScore
from glnn.quality.intervals import bootstrap_weights, metric_intervals, paired_difference
from glnn.quality.metrics import Judged
from glnn.quality.verdict import beats_chance, majority_share, verdict_of


def score(name, classes, predicted, own=None):
    judged = Judged(classes, np.eye(classes.max() + 1)[predicted])
    weights = bootstrap_weights(len(classes), np.random.default_rng(0))
    difference = None if own is None else paired_difference(own.judged, judged, weights)
    return MethodScore(name, name, judged, metric_intervals(judged, weights), 0.0, difference)


def wrong_in(classes, n_wrong):
    predicted = classes.copy()
    predicted[:n_wrong] = (predicted[:n_wrong] + 1) % (classes.max() + 1)
    return predicted


CLASSES = np.arange(200) % 4


def test_a_good_fit_says_its_accuracy_and_the_best_plain_method():
    own = score("glnn", CLASSES, wrong_in(CLASSES, 20))
    plain = score("logistic", CLASSES, wrong_in(CLASSES, 60), own)
    verdict = verdict_of(own, [plain])
    assert verdict.kind == "good"
    assert str(verdict).startswith("about 90 % ± 6 on labels it had not seen; clearly above")
    assert str(verdict).endswith("logistic 70 %")


def test_who_is_no_better_than_a_plain_method_is_not_called_good():
    own = score("glnn", CLASSES, wrong_in(CLASSES, 20))
    verdict = verdict_of(own, [score("logistic", CLASSES, wrong_in(CLASSES[::-1], 22)[::-1], own)])
    assert verdict.kind == "level"
    assert "not clearly different from the best plain method, logistic 89 %" in str(verdict)


def test_a_plain_method_that_is_clearly_better_is_recommended():
    own = score("glnn", CLASSES, wrong_in(CLASSES, 60))
    verdict = verdict_of(own, [score("logistic", CLASSES, wrong_in(CLASSES, 10), own)])
    assert verdict.kind == "plain"
    assert str(verdict).endswith("logistic 95 %: use that here")


def test_guesses_are_no_better_than_chance(rng):
    own = score("glnn", CLASSES, rng.integers(0, 4, 200))
    verdict = verdict_of(own, [score("majority", CLASSES, np.zeros(200, int), own)])
    assert verdict.kind == "chance"
    assert str(verdict).startswith("no better than chance")


def test_few_labels_are_said_and_nothing_else():
    own = score("glnn", CLASSES[:12], CLASSES[:12])
    assert str(verdict_of(own, [])) == "too few labels to tell: 12"


def test_classes_that_are_told_apart_beat_chance_even_where_one_has_nearly_all_nodes(rng):
    classes = (np.arange(300) % 10 == 0).astype(int)
    shouting = np.where(rng.random(300) < 0.15, 1 - classes, classes)
    own = score("glnn", classes, shouting)
    assert majority_share(own) == 0.9
    assert own.metrics["accuracy"].value < 0.9
    assert beats_chance(own)


def test_where_a_fit_only_guesses_a_method_that_does_not_is_recommended(rng):
    own = score("glnn", CLASSES, rng.integers(0, 4, 200))
    better = score("logistic", CLASSES, wrong_in(CLASSES, 60), own)
    alike = score("logistic", CLASSES, rng.integers(0, 4, 200), own)
    assert str(verdict_of(own, [better])).endswith("; logistic has 70 %: use that here")
    assert "use that" not in str(verdict_of(own, [alike]))


def test_judged_labels_of_one_class_tell_nothing():
    classes = np.zeros(30, dtype=int)
    judged = Judged(classes, np.tile([0.9, 0.1], (30, 1)))
    weights = bootstrap_weights(30, np.random.default_rng(0))
    own = MethodScore("glnn", "glnn", judged, metric_intervals(judged, weights), 0.0, None)
    verdict = verdict_of(own, [])
    assert verdict.kind == "few"
    assert str(verdict) == "cannot tell: all 30 labels that could be hidden are of one class"


def test_classes_without_a_judged_label_make_chance_no_smaller(rng):
    classes, guessed = np.arange(40) % 2, rng.integers(0, 2, 40)
    judged = Judged(classes, np.eye(6)[guessed])
    weights = bootstrap_weights(40, np.random.default_rng(0))
    own = MethodScore("glnn", "glnn", judged, metric_intervals(judged, weights), 0.0, None)
    assert verdict_of(own, []).kind == "chance"
