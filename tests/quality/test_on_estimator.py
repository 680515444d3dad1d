"""Tests of calibration, prediction sets, suspect labels and explanations of the estimator."""

import copy
import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from glnn import GLNNClassifier, evaluate
from glnn.exceptions import InputError

# Calibration, prediction sets, suspect labels

QUICK = {"n_epochs": 15, "n_rounds": 1, "random_state": 0, "tracks": ["features"]}


@pytest.fixture
def blobs(rng):
    y = np.arange(120) % 3
    X = 4 * np.eye(3)[y] + rng.normal(size=(120, 3))
    return X, np.where(np.arange(120) < 60, y, -1), y


def calibrated_fit(blobs, folds=5, **params):
    X, y, _ = blobs
    return GLNNClassifier(**QUICK, **params).fit(X, y, folds=folds)


def test_without_calibration_nothing_changes_to_the_bit(blobs):
    raw, calibrated = calibrated_fit(blobs, calibrate=None), calibrated_fit(blobs)
    assert raw.label_distributions_ is raw.raw_distributions_
    np.testing.assert_array_equal(raw.raw_distributions_, calibrated.raw_distributions_)
    assert raw.held_out_ is None


def test_probabilities_of_training_and_new_rows_are_calibrated_alike(blobs):
    X, _, _ = blobs
    model = calibrated_fit(blobs)
    expected = model.calibration_.apply(model.raw_distributions_)
    np.testing.assert_array_equal(model.label_distributions_, expected)
    np.testing.assert_allclose(model.predict_proba(X), expected)
    np.testing.assert_array_equal(model.transduction_, model.predict(X))


def test_validation_nodes_calibrate_at_no_cost(blobs):
    X, y, _ = blobs
    chosen = np.arange(30)
    model = GLNNClassifier(**QUICK).fit(X, y, validation=chosen)
    np.testing.assert_array_equal(model.held_out_.hidden_nodes, chosen)
    # their labels have corrected the classes, so each fifth is predicted without its own
    raw, held_out = model.raw_distributions_, model.held_out_.probabilities
    np.testing.assert_array_equal(held_out[30:], raw[30:])
    assert (held_out != raw)[:30].any()


def test_sets_and_suspects_need_no_fit_and_effects_of_labels_show_their_fits(
    blobs, monkeypatch, capsys
):
    model = calibrated_fit(blobs, verbose=1)
    assert "100%" in capsys.readouterr().err
    model.explain(70, n_labels=2, refits=1)
    assert "label effects: fit 3 of 3" in capsys.readouterr().err
    monkeypatch.setattr(GLNNClassifier, "fit", None)
    assert len(model.predict_set(0.1)) == 120
    model.suspect_labels()
    model.explain(70)


@pytest.mark.parametrize("tracks", [["features"], ["features", "linear"]])
def test_the_folds_of_a_fit_calibrate_without_a_further_fit(blobs, tracks):
    X, y, _ = blobs
    model = GLNNClassifier(**QUICK | {"tracks": tracks}).fit(X, y, folds=3)
    held_out = model.held_out_
    np.testing.assert_array_equal(held_out.hidden_nodes, np.flatnonzero(y >= 0))
    assert held_out.n_folds == 3
    hidden = held_out.hidden_nodes
    assert (held_out.probabilities[hidden] != model.raw_distributions_[hidden]).any(1).all()
    np.testing.assert_array_equal(
        np.delete(held_out.probabilities, hidden, 0), np.delete(model.raw_distributions_, hidden, 0)
    )
    assert model.calibration_.n_labels == 60


def test_without_hidden_labels_there_are_no_suspects_until_an_estimate_brings_them(blobs):
    X, y, _ = blobs
    model = GLNNClassifier(**QUICK).fit(X, y, validation=np.arange(30))
    assert len(model.predict_set(0.1)) == 120  # calibrated with the validation nodes
    with pytest.raises(InputError, match="hidden in folds"):
        model.suspect_labels()
    judged = evaluate(X, y, estimator=model, folds=2, validation=np.arange(30), rivals=None)
    model.set_calibration(judged.held_out).suspect_labels()
    one_each = GLNNClassifier(**QUICK).fit(X, np.where(np.arange(120) < 3, y, -1))
    assert one_each.calibration_.is_identity
    with pytest.raises(InputError, match="must have been hidden to judge"):
        one_each.predict_set()


def test_an_estimate_made_elsewhere_is_taken_without_a_fit(blobs):
    held_out = calibrated_fit(blobs, folds=3).held_out_
    model = calibrated_fit(blobs, calibrate=None)
    assert model.set_calibration(held_out) is model
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
    assert 1 < found.attrs["n_estimated"] < 10


def test_sets_hold_most_true_classes_and_new_rows_get_sets_too(blobs):
    X, _, truth = blobs
    model = calibrated_fit(blobs)
    sets = model.predict_set(0.1)
    assert np.mean([label in chosen for label, chosen in zip(truth, sets)]) > 0.8
    assert len(model.predict_set(0.1, X[:4] + 0.01)) == 4


def test_a_saved_model_gives_the_same_probabilities_and_sets(blobs, tmp_path):
    model = calibrated_fit(blobs, folds=2)
    model.save(tmp_path)
    read = GLNNClassifier.load(tmp_path)
    np.testing.assert_array_equal(read.label_distributions_, model.label_distributions_)
    assert read.predict_set(0.1) == model.predict_set(0.1)
    assert read.suspect_labels().equals(model.suspect_labels())


@pytest.mark.parametrize("part", ["X", "graph"])
def test_what_was_changed_in_place_since_the_fit_is_not_fitted_again(blobs, part):
    X, y, _ = blobs
    ring = sp.csr_matrix((np.ones(120), (np.arange(120), np.roll(np.arange(120), 1))))
    graph = (ring + ring.T).tocsr()
    X, model = X.copy(), GLNNClassifier(**QUICK | {"tracks": ["learned"]}, calibrate=None)
    model.fit(X, y, graph)
    changed = X if part == "X" else graph.data
    first = changed[0].copy()
    changed[0] += 1
    with pytest.raises(InputError, match="unchanged since fit"):
        model.explain(70, n_labels=1, refits=1)
    changed[0] = first
    model.explain(70, n_labels=1, refits=1)


def test_weights_of_samples_count_as_those_of_their_classes_do(rng):
    y = rng.choice(2, size=90, p=[0.8, 0.2])
    x = rng.normal(size=(90, 3)) + 0.9 * y[:, None]
    seen = np.where(np.arange(90) < 50, y, -1)
    quick = {"n_epochs": 10, "n_rounds": 1, "random_state": 0}
    by_class = GLNNClassifier(class_weight={0: 1.0, 1: 6.0}, **quick).fit(x, seen, folds=2)
    rows = np.where(seen == 1, 6.0, 1.0)
    by_row = GLNNClassifier(**quick).fit(x, seen, sample_weight=rows, folds=2)
    assert np.allclose(by_row.label_distributions_, by_class.label_distributions_, atol=1e-6)
    huge = GLNNClassifier(**quick).fit(x, seen, sample_weight=1e307 * rows, folds=2)
    assert np.allclose(huge.label_distributions_, by_row.label_distributions_, atol=1e-6)
    assert by_row.calibration_.n_labels > 0


# Explanations and suggestions


def two_groups(seed=0, n_nodes=40):
    rng = np.random.default_rng(seed)
    classes = np.arange(n_nodes) % 2
    X = rng.standard_normal((n_nodes, 4))
    X[:, 1] += 4 * classes  # the second column decides
    y = np.where(np.arange(n_nodes) < 8, np.array(["no", "yes"])[classes], "")
    links = rng.random((n_nodes, n_nodes)) < np.where(classes[:, None] == classes, 0.2, 0.02)
    upper = np.triu(links, 1)
    return X, y, sp.csr_matrix((upper | upper.T).astype(float)), classes


@pytest.fixture(scope="module")
def explained_fit():
    X, y, graph, _ = two_groups()
    quick = {"n_epochs": 30, "calibrate": None, "random_state": 0, "tracks": ["learned"]}
    return GLNNClassifier(**quick).fit(X, y, graph=graph)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"head": "gcn"},
        {"reading": "channel"},
        {"reading": "frobenius", "n_rounds": 2},
        {"scaling": "none", "signal": "standardized"},
    ],
    ids=str,
)
@pytest.mark.parametrize("has_graph", [True, False])
def test_terms_of_every_link_of_a_fit_sum_to_its_weight(options, has_graph):
    X, y, graph, _ = two_groups()
    tracks = None if "head" in options else ["learned" if has_graph else "features"]
    quick = {"n_epochs": 5, "calibrate": None, "random_state": 0, "tracks": tracks}
    model = GLNNClassifier(**quick, settings=options)
    model.fit(X, y, graph=graph if has_graph else None)
    for node in (0, 11, 39):
        for link in model.explain(node).links:
            assert link.weight == model.graph_[node, link.node]
            assert_allclose(sum(link.terms.values()), link.weight, atol=1e-6)


def test_a_saved_model_explains_and_suggests_the_same(explained_fit, tmp_path):
    explained_fit.save(tmp_path / "model")
    loaded = GLNNClassifier.load(tmp_path / "model")
    assert loaded.explain(17).to_dict() == explained_fit.explain(17).to_dict()
    assert loaded.explain(17).label_effects == () and not loaded.explain(17).is_measured
    with pytest.raises(InputError, match="refits must be 0"):
        loaded.explain(17, refits=1)
    with pytest.raises(InputError, match="column_names must name each"):
        loaded.explain(17, column_names=["one"])
    assert loaded.suggest_labels(3).equals(explained_fit.suggest_labels(3))


def test_suggestions_are_unlabelled_and_differ(explained_fit):
    frame = explained_fit.suggest_labels(12)
    assert len(set(frame["node"])) == 12
    assert frame["node"].min() >= 8  # the first eight rows have labels
    assert (frame["gain"] > 0).all()  # a later one may gain a little more than the one before
    assert frame[:4].equals(explained_fit.suggest_labels(4))
    assert set(explained_fit.suggest_labels(5, among=[3, 30, 31])["node"]) == {30, 31}


@pytest.fixture
def named(explained_fit):
    """The fitted model, with names of its rows."""
    model = copy.copy(explained_fit)
    model.row_names_ = np.array([f"w{k}" for k in range(40)])
    return model


def test_a_row_can_be_asked_for_by_its_name(named):
    assert named.explain("w17").to_dict() == named.explain(17).to_dict()
    measured = named.explain("w17", refits=1, n_labels=2)
    assert measured.is_measured and len(measured.label_effects) == 2
    with pytest.raises(InputError, match=r"name or the number of a row, got 'w40'.*Did you mean"):
        named.explain("w40")
    for outside in (-1, 40):
        with pytest.raises(InputError, match="node must be at least 0 and at most 39"):
            named.explain(outside, refits=1)
    frame = named.suggest_labels(5)
    assert frame["name"].tolist() == [f"w{node}" for node in frame["node"]]


@pytest.mark.parametrize("calibrate", [None, "auto"])
def test_labels_are_left_out_once_for_all_rows(calibrate, monkeypatch):
    X, y, graph, _ = two_groups(1)
    quick = {"n_epochs": 5, "calibrate": calibrate, "random_state": 6, "tracks": ["learned"]}
    quick["n_rounds"] = 1
    model = GLNNClassifier(**quick).fit(X, y, graph=graph)
    found = [model.explain(node, n_labels=8, refits=1) for node in (3, 25)]
    monkeypatch.setattr(model, "_refit_without", None)  # nothing is fitted again
    assert model.explain(3, n_labels=8, refits=1) == found[0]
    assert model.explain(3, n_labels=0, refits=1).label_effects == ()
    np.testing.assert_array_equal(model._refits[None, 6], model.label_distributions_)
    assert {one.node for one in found[0].label_effects} == set(range(8)) - {3}
    effects = [abs(one.effect) for one in found[1].label_effects]
    assert effects == sorted(effects, reverse=True)
    one = found[1].label_effects[0]
    again = GLNNClassifier(**quick)
    again.fit(X, np.where(np.arange(40) == one.node, "", y), graph=graph)
    change = (model.label_distributions_ - again.label_distributions_)[25]
    assert_allclose(list(one.effects.values()), change, atol=1e-12)


def test_signals_spread_as_the_tracks_do_mixed_by_their_weights(all_tracks_count):
    X, y, graph, _ = two_groups()
    model = GLNNClassifier(n_epochs=2, calibrate=None, random_state=0, n_rounds=2)
    fitted = model.fit(X, y, graph=graph, folds=2)._model
    signals = np.random.default_rng(0).normal(size=(40, 3))
    mixed = model.fitted_nodes().propagate(signals)
    assert len(fitted.tracks) > 1
    expected = 0.0
    for track in fitted.tracks:
        model._model = dataclasses.replace(fitted, tracks=(dataclasses.replace(track, weight=1.0),))
        expected = expected + track.weight * model.fitted_nodes().propagate(signals)
    assert_allclose(mixed, expected)
