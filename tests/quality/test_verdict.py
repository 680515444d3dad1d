import dataclasses
import json
import time

import numpy as np
import pytest
from scipy.stats import binomtest, fisher_exact
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from glnn.data.labels import make_folds
from glnn.quality import metrics
from glnn.quality.metrics import Score, ScoredPredictions, accuracy_interval, bootstrap_weights
from glnn.quality.rivals import NodeProblem, choose_rivals, fit_given
from glnn.quality.verdict import (
    CHANCE_LEVEL,
    _balanced_p_value,
    chance_p_value,
    correct_p_values,
    largest_share,
    make_verdict,
    mcnemar_p_value,
    score_rivals,
)

# Rivals on the same folds


@pytest.fixture
def table(rng):
    classes = np.arange(60) % 3
    x = np.eye(3)[classes] + 0.3 * rng.normal(size=(60, 3))
    labels = np.where(np.arange(60) < 40, classes, -1)
    return NodeProblem(x, None, labels, np.arange(40))


NAMES = np.array(["a", "b", "c"])


def given(rows, **models):
    rivals = choose_rivals(models, has_graph=False, rows=rows, classes=NAMES)
    return [rival for rival in rivals if rival.name in models]


def contest(rivals, problem, **options):
    folds = make_folds(problem.labels, 4, seed=0)
    own = ScoredPredictions(problem.labels[:40], np.eye(3)[problem.labels[:40]])
    weights = bootstrap_weights(40, np.random.default_rng(0))
    return score_rivals(rivals, problem, folds, own, weights, **options)


def test_rivals_are_judged_on_hidden_labels_alone(table):
    told = []
    rivals = choose_rivals(["majority", "logistic_regression"], has_graph=False)
    (majority, logistic), notes = contest(rivals, table, progress=told.append)
    assert told == ["largest class", "logistic regression"]
    assert notes == ()
    np.testing.assert_array_equal(majority.predictions.classes, table.labels[:40])
    assert majority.accuracy < 0.5 < logistic.accuracy
    assert logistic.difference.value == pytest.approx(1 - logistic.accuracy)


def test_rivals_train_on_the_labels_of_validation_nodes_too(table):
    split = NodeProblem(table.features, None, table.labels, np.arange(30), np.arange(30, 40))
    rivals = choose_rivals(["logistic_regression"], has_graph=False)
    ((some,), _), ((every,), _) = (contest(rivals, problem) for problem in (split, table))
    found, expected = some.predictions.probabilities, every.predictions.probabilities
    np.testing.assert_array_equal(found, expected)


def test_without_probabilities_the_predicted_class_is_certain(table):
    found = fit_given(LinearSVC(), None, NAMES, table)
    assert set(found.ravel()) == {0.0, 1.0}
    expected = LinearSVC().fit(table.features[:40], table.labels[:40]).predict(table.features)
    np.testing.assert_array_equal(found.argmax(1), expected)


def test_a_class_missing_among_the_labels_has_probability_zero(table):
    fewer = dataclasses.replace(table, train=np.flatnonzero(table.labels[:40] != 1))
    found = fit_given(LogisticRegression(), None, NAMES, fewer)
    assert (found[:, 1] == 0).all()
    np.testing.assert_allclose(found.sum(1), 1)


class Broken(DummyClassifier):
    def fit(self, X, y, sample_weight=None):
        raise ValueError("first line\nsecond line")


class Slow(DummyClassifier):
    n_fits = 0

    def fit(self, X, y, sample_weight=None):
        time.sleep(0.02)
        Slow.n_fits += 1
        return super().fit(X, y)


def test_a_rival_that_fails_is_left_out_with_the_first_line_of_its_error(table):
    rivals = [*given(None, broken=Broken(), slow=Slow()), *choose_rivals(["gcn"], has_graph=False)]
    scores, notes = contest(rivals, table)
    assert [score.name for score in scores] == ["slow"]
    assert notes[0] == "broken left out: first line"
    assert notes[1].startswith("GCN left out: it needs a graph")


def test_a_rival_that_would_take_too_long_is_left_out_after_its_first_fold(table, monkeypatch):
    monkeypatch.setattr("glnn.quality.verdict._MIN_SECONDS", 0.0)
    Slow.n_fits = 0
    scores, (note,) = contest(given(None, slow=Slow()), table, max_seconds=0.05)
    assert scores == () and Slow.n_fits == 1
    assert note.startswith("slow left out: its 4 folds would take about")


# Tests


def of(classes, predicted, n_classes=None):
    return ScoredPredictions(classes, np.eye(n_classes or classes.max() + 1)[predicted])


def test_mcnemar_is_the_binomial_test_of_the_discordant_labels():
    classes = np.zeros(40, dtype=int)
    first, second = classes.copy(), classes.copy()
    first[:3], second[3:15] = 1, 1  # twelve against three
    own, other = of(classes, first, 2), of(classes, second, 2)
    exact = binomtest(12, 15, alternative="greater").pvalue
    beyond = binomtest(13, 15, alternative="greater").pvalue
    assert mcnemar_p_value(own, other) == pytest.approx((exact + beyond) / 2)
    assert mcnemar_p_value(own, other) + mcnemar_p_value(other, own) == pytest.approx(1)


def test_holm_multiplies_the_smallest_by_their_number_and_keeps_the_order():
    found = correct_p_values([0.04, 0.01, 0.02, 0.9])
    np.testing.assert_allclose(found, [0.08, 0.04, 0.06, 0.9])
    assert correct_p_values([]).size == 0


def test_balanced_accuracy_of_two_classes_is_judged_as_by_fisher():
    table = np.array([[60, 30], [4, 6]])
    exact = fisher_exact(table, alternative="greater").pvalue
    assert _balanced_p_value(table) == pytest.approx(exact, rel=0.1)


def test_classes_that_are_told_apart_beat_chance_even_where_one_has_nearly_all_nodes(rng):
    classes = (np.arange(300) % 10 == 0).astype(int)
    shouting = np.where(rng.random(300) < 0.15, 1 - classes, classes)
    own = score("glnn", classes, shouting)
    assert largest_share(own.predictions) == 0.9
    assert own.accuracy < 0.9
    assert chance_p_value(own.predictions) < CHANCE_LEVEL


# Verdict

TRUTH = np.arange(200) % 4


def score(name, classes, predicted, own=None, n_classes=None, n_draws=500):
    judged = of(classes, predicted, n_classes)
    weights = bootstrap_weights(len(classes), np.random.default_rng(0))[:n_draws]
    lead = own and metrics.paired_difference(own.predictions, judged, weights)
    return Score(name, name, judged, metrics.metric_intervals(judged, weights), 0.0, lead)


def wrong_in(classes, n_wrong):
    predicted = classes.copy()
    predicted[:n_wrong] = (predicted[:n_wrong] + 1) % (classes.max() + 1)
    return predicted


def verdict_on(n_wrong, *rivals, truth=TRUTH, **options):
    """Verdict on a fit with so many mistakes, among rivals given by their predictions."""
    own = score("glnn", truth, wrong_in(truth, n_wrong))
    others = [score(f"rival {k}", truth, rival, own) for k, rival in enumerate(rivals)]
    return make_verdict(own, others, **options)


def test_a_good_fit_is_above_chance_and_above_every_rival():
    found = verdict_on(20, wrong_in(TRUTH, 60), wrong_in(TRUTH, 70))
    assert (found.kind, found.beats_chance, found.rival_beats_chance) == ("good", True, True)
    assert found.rival == "rival 0"
    assert found.accuracy == accuracy_interval(180, 200)
    assert found.rival_accuracy == accuracy_interval(140, 200)
    assert found.difference.value == pytest.approx(0.2) and found.difference.low > 0
    assert found.p_value < 0.001
    assert (found.n_labels, found.n_labels_needed, found.chance_share) == (200, None, 0.25)


def test_a_rival_that_is_not_clearly_worse_makes_it_level():
    alike = wrong_in(TRUTH[::-1], 22)[::-1]
    found = verdict_on(20, wrong_in(TRUTH, 60), alike)
    assert (found.kind, found.rival) == ("level", "rival 1")
    assert found.p_value > 0.05
    assert found.n_labels_needed > 200


def test_a_rival_that_is_clearly_better_is_named():
    found = verdict_on(60, wrong_in(TRUTH, 40), wrong_in(TRUTH, 10))
    assert (found.kind, found.rival, found.rival_beats_chance) == ("rival", "rival 1", True)
    assert found.difference.high < 0 and found.p_value < 0.001
    assert "rival 1" in found.sentence


def test_the_more_rivals_the_clearer_the_best_must_be():
    better = wrong_in(TRUTH, 20)
    better[:6] = TRUTH[:6]  # six mistakes fewer
    assert verdict_on(20, better).kind == "rival"
    many = verdict_on(20, better, *(np.roll(wrong_in(TRUTH, 20), 20 * k) for k in range(1, 10)))
    assert many.kind != "rival"
    assert many.p_value > verdict_on(20, better).p_value


def test_a_rival_that_is_better_than_a_guess_but_no_better_than_chance_is_not_named(rng):
    truth = (np.arange(200) % 10 == 0).astype(int)
    own = score("glnn", truth, rng.integers(0, 2, 200))
    always_first = score("rival", truth, np.zeros(200, dtype=int), own, 2)
    found = make_verdict(own, [always_first])
    assert found.p_value < 0.001  # of the difference
    assert (found.kind, found.rival_beats_chance) == ("chance", False)


def test_few_labels_have_a_number_that_would_do():
    own = score("glnn", TRUTH[:12], TRUTH[:12])
    found = make_verdict(own, [])
    assert (found.kind, found.n_labels, found.n_labels_needed) == ("few", 12, 20)
    faint = score("glnn", TRUTH[:12] % 2, wrong_in(TRUTH[:12] % 2, 5))
    assert make_verdict(faint, []).n_labels_needed > 100


def test_labels_of_one_class_tell_nothing():
    own = score("glnn", np.zeros(30, dtype=int), np.zeros(30, dtype=int), n_classes=2)
    found = make_verdict(own, [])
    assert (found.kind, found.chance_share, found.n_labels_needed) == ("few", 1, None)


def test_the_largest_class_is_chance_and_no_rival():
    own = score("glnn", TRUTH, wrong_in(TRUTH, 20))
    found = make_verdict(own, [score("majority", TRUTH, np.zeros(200, dtype=int), own, 4)])
    assert (found.kind, found.rival) == ("good", None)


@pytest.mark.parametrize("n_wrong", [20, 60, 150, 200])
def test_every_sentence_has_the_interval_and_every_record_is_json(n_wrong):
    found = verdict_on(n_wrong, wrong_in(TRUTH, 60))
    bounds = f"{100 * found.accuracy.low:.0f}–{100 * found.accuracy.high:.0f} %"
    assert bounds in found.sentence and "±" not in found.sentence
    assert json.loads(json.dumps(dataclasses.asdict(found)))["kind"] == found.kind


def test_tables_of_noise_praise_and_recommend_nothing():
    kinds = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        truth = rng.choice(3, 100, p=[0.5, 0.3, 0.2])
        guesses = [rng.choice(3, 100, p=[0.5, 0.3, 0.2]) for _ in range(6)]
        own = score("glnn", truth, guesses[0], n_classes=3, n_draws=2)
        rivals = [score("rival", truth, guess, own, 3, n_draws=2) for guess in guesses[1:]]
        kinds.append(make_verdict(own, rivals).kind)
    assert sum(kind != "chance" for kind in kinds) <= 1
