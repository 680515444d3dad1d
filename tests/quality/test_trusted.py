import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.model_selection import cross_val_score

from glnn import GLNNClassifier
from glnn.exceptions import InputError

QUICK = {"n_epochs": 15, "n_rounds": 1, "random_state": 0}


@pytest.fixture
def blobs(rng):
    y = np.arange(120) % 3
    X = 4 * np.eye(3)[y] + rng.normal(size=(120, 3))
    return X, np.where(np.arange(120) < 60, y, -1), y


def fitted(blobs, **params):
    X, y, _ = blobs
    return GLNNClassifier(**QUICK, **params).fit(X, y)


def test_without_calibration_nothing_changes_to_the_bit(blobs):
    raw, calibrated = fitted(blobs, calibrate=None), fitted(blobs)
    assert raw.label_distributions_ is raw.raw_distributions_
    np.testing.assert_array_equal(raw.raw_distributions_, calibrated.raw_distributions_)
    assert raw.held_out_ is None


def test_probabilities_of_training_and_new_rows_are_calibrated_alike(blobs):
    X, _, _ = blobs
    model = fitted(blobs)
    expected = model.calibration_.apply(model.raw_distributions_)
    np.testing.assert_array_equal(model.label_distributions_, expected)
    np.testing.assert_allclose(model.predict_proba(X), expected)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(expected))
    np.testing.assert_array_equal(model.transduction_, model.predict(X))


def test_validation_nodes_calibrate_at_no_cost(blobs):
    X, y, _ = blobs
    chosen = np.arange(30)
    model = GLNNClassifier(**QUICK).fit(X, y, validation=chosen)
    np.testing.assert_array_equal(model.held_out_.judged, chosen)
    assert model.held_out_.probabilities is model.raw_distributions_


def test_auto_hides_a_third_of_the_labels_once_and_folds_hide_all(blobs):
    assert len(fitted(blobs).held_out_.judged) == 20
    folds = fitted(blobs, calibrate="folds").held_out_
    assert len(folds.judged) == 60 and folds.n_folds == 5


def test_a_label_in_each_class_alone_cannot_be_hidden(blobs):
    X, y, _ = blobs
    few = np.where(np.arange(120) < 3, y, -1)
    model = GLNNClassifier(**QUICK).fit(X, few)
    assert model.calibration_.is_identity
    with pytest.raises(InputError, match="at least two of them"):
        model.suspect_labels()


def test_an_estimate_made_elsewhere_is_taken_without_a_fit(blobs):
    held_out = fitted(blobs, calibrate="folds").held_out_
    model = fitted(blobs, calibrate=None)
    assert model.trust(held_out) is model
    expected = held_out.calibration().apply(model.raw_distributions_)
    np.testing.assert_array_equal(model.label_distributions_, expected)


def test_planted_mistakes_are_suspect(blobs):
    X, y, _ = blobs
    wrong = np.array([0, 7, 20])
    y = y.copy()
    y[wrong] = (y[wrong] + 1) % 3
    found = GLNNClassifier(**QUICK).fit(X, y).suspect_labels()
    assert set(wrong) <= set(found["node"])
    assert (found["given"] != found["predicted"]).all()
    np.testing.assert_array_equal(found["given"], y[found["node"]])


def test_sets_hold_most_true_classes_and_new_rows_get_sets_too(blobs):
    X, _, truth = blobs
    model = fitted(blobs, calibrate="folds")
    sets = model.predict_set(0.1)
    assert np.mean([label in chosen for label, chosen in zip(truth, sets)]) > 0.8
    assert len(model.predict_set(0.1, X[:4] + 0.01)) == 4


def test_few_labels_have_no_sets(blobs):
    X, y, _ = blobs
    few = np.where(np.arange(120) < 9, y, -1)
    with pytest.raises(InputError, match="at least 19 labels to judge, got 9"):
        GLNNClassifier(**QUICK).fit(X, few).predict_set(0.1)


def test_a_saved_model_gives_the_same_probabilities_and_sets(blobs, tmp_path):
    model = fitted(blobs, calibrate="folds")
    model.save(tmp_path)
    read = GLNNClassifier.load(tmp_path)
    np.testing.assert_array_equal(read.label_distributions_, model.label_distributions_)
    assert read.predict_set(0.1) == model.predict_set(0.1)
    assert read.suspect_labels().equals(model.suspect_labels())


def test_a_saved_model_that_judged_nothing_says_so(blobs, tmp_path):
    fitted(blobs, calibrate=None).save(tmp_path)
    with pytest.raises(InputError, match="before saving"):
        GLNNClassifier.load(tmp_path).suspect_labels()


def test_rows_without_a_label_are_left_out_of_scores(blobs):
    X, y, _ = blobs
    model = fitted(blobs, calibrate=None)
    assert model.score(X, y) == model.score(X[:60], y[:60])
    assert cross_val_score(GLNNClassifier(**QUICK, calibrate=None), X, y, cv=3).min() > 0.6


def test_fit_predict_is_the_transductive_answer(blobs):
    X, y, _ = blobs
    model = GLNNClassifier(**QUICK, calibrate=None)
    np.testing.assert_array_equal(model.fit_predict(X, y), model.transduction_)


def test_an_unknown_calibration_is_refused_with_a_hint(blobs):
    with pytest.raises(InputError, match="Did you mean 'folds'"):
        fitted(blobs, calibrate="fold")


def uneven(rng):
    y = (rng.random(200) < 0.12).astype(int)
    X = rng.normal(size=(200, 3)) + 1.6 * y[:, None]
    return X, np.where(np.arange(200) < 120, y, -1), y


def test_balanced_weights_find_more_of_a_rare_class(rng):
    X, y, truth = uneven(rng)
    rare = truth == 1
    found = [
        (GLNNClassifier(n_epochs=60, random_state=0, class_weight=how).fit_predict(X, y) == 1)[rare]
        for how in (None, "balanced")
    ]
    assert found[1].sum() > found[0].sum()


def test_a_weight_of_nothing_takes_a_label_away_from_the_losses(rng):
    X, y, _ = uneven(rng)
    own = np.ones(200)
    own[y == 1] = 0
    model = GLNNClassifier(**QUICK, calibrate=None).fit(X, y, sample_weight=own)
    assert (model.transduction_ == 0).all()


def test_wrong_class_weights_are_refused(blobs):
    with pytest.raises(InputError, match="class_weight must be None"):
        fitted(blobs, class_weight="even")


@pytest.mark.parametrize(
    "ask", [lambda m: m.suspect_labels(), lambda m: m.explain(70, n_labels=1, refits=1)]
)
@pytest.mark.parametrize("part", ["X", "graph"])
def test_what_was_changed_in_place_since_the_fit_is_not_fitted_again(blobs, ask, part):
    X, y, _ = blobs
    ring = sp.csr_matrix((np.ones(120), (np.arange(120), np.roll(np.arange(120), 1))))
    graph = (ring + ring.T).tocsr()
    X, model = X.copy(), GLNNClassifier(**QUICK, doubts_graph=False, competes=False)
    model.fit(X, y, graph)
    changed = X if part == "X" else graph.data
    first = changed[0].copy()
    changed[0] += 1
    with pytest.raises(InputError, match="as they were in fit"):
        ask(model)
    changed[0] = first
    ask(model)


def test_weights_of_samples_count_as_those_of_their_classes_do(rng):
    y = rng.choice(2, size=90, p=[0.8, 0.2])
    x = rng.normal(size=(90, 3)) + 0.9 * y[:, None]
    seen = np.where(np.arange(90) < 50, y, -1)
    quick = {"n_epochs": 20, "n_rounds": 1, "random_state": 0}
    by_class = GLNNClassifier(class_weight={0: 1.0, 1: 6.0}, **quick).fit(x, seen)
    rows = np.where(seen == 1, 6.0, 1.0)
    by_row = GLNNClassifier(**quick).fit(x, seen, sample_weight=rows)
    assert np.allclose(by_row.label_distributions_, by_class.label_distributions_, atol=1e-6)
    assert by_row.calibration_.n_labels > 0


def test_labels_without_weight_can_still_calibrate(rng):
    y = np.arange(60) % 2
    x = rng.normal(size=(60, 3)) + 2.0 * y[:, None]
    rows = np.where(np.arange(60) < 40, 1.0, 0.0)
    quick = {"n_epochs": 10, "n_rounds": 1, "random_state": 0}
    fitted = GLNNClassifier(**quick).fit(x, y, validation=np.arange(40, 60), sample_weight=rows)
    assert fitted.calibration_.n_labels == 20


def test_suspects_have_the_names_of_their_rows(rng):
    y = np.arange(40) % 2
    x = pd.DataFrame(rng.normal(size=(40, 3)) + 6.0 * y[:, None])
    x.columns, x.index = list("abc"), [f"row {k}" for k in range(40)]
    wrong = y.copy()
    wrong[7] = 1 - y[7]
    fitted = GLNNClassifier(n_epochs=30, random_state=0, calibrate="folds").fit(x, wrong)
    found = fitted.suspect_labels()
    assert found["node"].tolist() == [7] and found["name"].tolist() == ["row 7"]
