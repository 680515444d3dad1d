import pydoc
import re
from collections import Counter
from pathlib import Path

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_digits, load_wine
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from glnn import GLNNClassifier, Weights
from glnn.engine.callbacks import Callback
from glnn.engine.settings import SETTING_NAMES, resolve_settings
from glnn.exceptions import InputError, NotFittedError, ProblemError

# Fit and predict

FAST = {"n_epochs": 15, "random_state": 0}

EXPECTED_FAILURES = {
    "check_classifiers_classes": "labels -1 and 1: here -1 means unlabelled, as in scikit-learn's "
    "own semi-supervised estimators",
    "check_sample_weight_equivalence_on_dense_data": "a repeated row is a further node",
    "check_sample_weight_equivalence_on_sparse_data": "a repeated row is a further node",
}


SHORT = {"n_epochs": 10, "n_rounds": 1, "random_state": 0}


@parametrize_with_checks(
    [GLNNClassifier(**SHORT, tracks=["features"], calibrate=None)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learns_contract_holds(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [GLNNClassifier(**SHORT, tracks=["features", "linear"])],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learns_contract_holds_for_a_mixture(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    rng = np.random.default_rng(0)
    known = np.concatenate([rng.choice(np.flatnonzero(y == c), 8, replace=False) for c in range(3)])
    partial = np.full(len(y), -1)
    partial[known] = y[known]
    return X, y, partial


@pytest.fixture(scope="module")
def fitted(wine):
    X, _, partial = wine
    return GLNNClassifier(**FAST).fit(X, partial)


def ring(n):
    return sp.csr_matrix(nx.to_scipy_sparse_array(nx.cycle_graph(n)))


def test_every_learnt_attribute_is_there_and_fits_the_others(wine, fitted):
    _, y, partial = wine
    n = len(y)
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.label_distributions_.shape == (n, 3)
    np.testing.assert_allclose(fitted.label_distributions_.sum(1), 1)
    np.testing.assert_array_equal(fitted.transduction_, fitted.label_distributions_.argmax(1))
    assert fitted.graph_.shape == (n, n) and fitted.graph_.data.min() > 0
    assert abs(fitted.graph_ - fitted.graph_.T).max() == 0
    assert fitted.prior_graph_ is None
    assert fitted.certificate_.converged
    assert fitted.n_iter_ == len(fitted.history_)
    assert fitted.n_features_in_ == 13
    assert fitted.edge_trust_ is None and "given graph" not in fitted.choices_
    dense = fitted.graph_.toarray() != 0
    assert fitted.n_edges_ == (dense.sum() - np.trace(dense)) / 2
    assert (fitted.transduction_ == y)[partial < 0].mean() > 0.9


def test_training_rows_get_their_transductive_answer(wine, fitted):
    X, _, _ = wine
    np.testing.assert_array_equal(fitted.predict_proba(X), fitted.label_distributions_)
    np.testing.assert_array_equal(fitted.predict(X), fitted.transduction_)


def test_labels_of_any_sortable_type_come_back(wine):
    X, _, partial = wine
    names = np.array(["", "barolo", "grignolino", "barbera"])[partial + 1]
    clf = GLNNClassifier("paper", **FAST).fit(X, names, folds=2)
    assert clf.classes_.tolist() == ["barbera", "barolo", "grignolino"]
    assert set(clf.predict(X[:20])) <= set(clf.classes_)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_matrix, sp.coo_array])
def test_the_same_seed_gives_the_same_bits_for_dense_and_sparse_features(form):
    rng = np.random.default_rng(0)
    X = form((rng.random((50, 30)) < 0.2).astype(np.float32))
    y = np.where(np.arange(50) < 12, np.arange(50) % 3, -1)
    quick = {"n_epochs": 5, "n_rounds": 2, "random_state": 0}
    one, two = (GLNNClassifier("paper", **quick).fit(X, y, folds=2) for _ in range(2))
    np.testing.assert_array_equal(one.label_distributions_, two.label_distributions_)
    assert (one.graph_ != two.graph_).nnz == 0


def test_a_graph_may_come_as_matrix_edges_or_networkx(wine):
    X, _, partial = wine
    n = len(X)
    edges = np.stack([np.arange(n), (np.arange(n) + 1) % n])
    forms = [ring(n), ring(n).toarray(), edges, nx.cycle_graph(n)]
    quick = {"n_epochs": 3, "n_rounds": 2, "random_state": 0, "calibrate": None}
    fits = [GLNNClassifier("paper", **quick).fit(X, partial, graph=g) for g in forms]
    for other in fits[1:]:
        np.testing.assert_array_equal(fits[0].label_distributions_, other.label_distributions_)
    assert fits[0].prior_graph_.shape == (n, n)


@pytest.mark.parametrize("tracks", [None, ["learned"], ["features"]])
def test_trust_in_edges_is_what_was_kept_times_the_trust_in_the_graph(
    wine, tracks, all_tracks_count
):
    X, _, partial = wine
    clf = GLNNClassifier(n_epochs=3, random_state=0, n_rounds=2, calibrate=None, tracks=tracks)
    clf.fit(X, partial, graph=ring(len(X)), folds=2)
    sees = {"learned", "linear", "hops"}
    weight = sum(w for name, w in clf.mixture_.items() if name in sees)
    trust, prior = clf.edge_trust_, clf.prior_graph_.copy()
    i, j = prior.nonzero()
    kept, given = (np.asarray(matrix[i, j]).ravel() for matrix in (clf.graph_, prior))
    expected = weight * np.where(i == j, 0, np.minimum(1, kept / given))
    np.testing.assert_allclose(np.asarray(trust[i, j]).ravel(), expected, atol=1e-12)
    trust.data[:] = 0.0
    trust.eliminate_zeros()
    assert (clf.prior_graph_ != prior).nnz == 0


def test_weights_without_a_ridge_are_those_of_the_tracks_that_see_the_graph(wine, all_tracks_count):
    X, _, partial = wine
    quick = {"n_epochs": 2, "n_rounds": 1, "random_state": 0, "calibrate": None}
    own = {"weights": Weights(smoothness=0.0, closeness=2.0)}
    clf = GLNNClassifier(**quick, tracks=["learned", "features"], settings=own)
    clf.fit(X, partial, graph=ring(len(X)))
    by_name = {track.name: track.graph for track in clf._model.tracks}
    alone = GLNNClassifier(**quick, tracks=["features"]).fit(X, partial, graph=ring(len(X)))
    assert abs(by_name["features"] - alone.graph_).max() == 0
    other = GLNNClassifier(**quick, tracks=["learned"]).fit(X, partial, graph=ring(len(X)))
    assert abs(by_name["learned"] - other.graph_).max() > 0
    with pytest.raises(ProblemError, match="ridge"):
        clf.fit(X, partial)


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"tracks": ["linear"]}, "linear"),
        ({"settings": {"head": "hops"}}, "hops"),
        ({"preset": "paper"}, "features"),
    ],
    ids=str,
)
def test_one_track_alone_has_all_the_weight(wine, params, name):
    X, _, partial = wine
    clf = GLNNClassifier(n_epochs=2, random_state=0, calibrate=None, **params).fit(X, partial)
    assert clf.mixture_ == {name: 1.0}
    assert {record["stage"].split()[0] for record in clf.history_} == {"classifier"}


def test_new_rows_are_within_two_points_of_transductive_accuracy():
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    held = rng.choice(len(y), len(y) // 5, replace=False)
    kept = np.setdiff1d(np.arange(len(y)), held)
    partial = np.full(len(y), -1)
    for c in range(10):
        some = rng.choice(kept[y[kept] == c], 5, replace=False)
        partial[some] = c
    quick = {"n_epochs": 40, "n_rounds": 1, "random_state": 0, "tracks": ["features"]}
    clf = GLNNClassifier(**quick, calibrate=None).fit(X[kept], partial[kept])
    unlabelled = kept[partial[kept] < 0]
    transductive = (clf.predict(X[unlabelled]) == y[unlabelled]).mean()
    assert clf.score(X[held], y[held]) > transductive - 0.02
    assert transductive > 0.85


def test_callbacks_see_every_stage(wine, all_tracks_count):
    X, _, partial = wine
    seen = []

    class Watch(Callback):
        def on_stage_begin(self, stage: str, n_epochs: int) -> None:
            seen.append(stage)

    quick = {"n_epochs": 2, "random_state": 0, "n_rounds": 2, "callbacks": [Watch()]}
    own = GLNNClassifier(**quick, tracks=["features"])
    own.fit(X, partial, validation=np.flatnonzero(partial >= 0)[::2])
    assert seen == ["graph 1", "classifier 1", "graph 2", "classifier 2"]
    seen.clear()
    several = GLNNClassifier(**quick | {"n_rounds": 1}, tracks=["features", "linear"])
    several.fit(X, partial, folds=3)
    # without each of three folds and with all labels; the first graph needs no label
    expected = {"features, graph 1": 1, "features, classifier 1": 4, "linear, classifier 1": 4}
    assert Counter(re.sub("fold . of 3, ", "", stage) for stage in seen) == expected


GOOD = np.arange(12.0).reshape(6, 2) % 5
LABELS = [0, 1, -1, -1, -1, -1]


@pytest.mark.parametrize(
    ("X", "y", "more", "words"),
    [
        (np.where(GOOD == 3, np.nan, GOOD), LABELS, {}, "X must be finite"),
        (GOOD, [-1] * 6, {}, "no label at all"),
        (GOOD[:1], [0], {}, "at least two rows"),
        (GOOD, LABELS, {"graph": np.ones((4, 4))}, "one row for each of the 6 nodes"),
        (GOOD, LABELS, {"validation": [3]}, "validation must name labelled rows"),
        (GOOD, LABELS, {"validation": [0]}, "training labels of all 2 classes"),
    ],
)
def test_bad_input_is_refused_in_one_line(X, y, more, words):
    with pytest.raises(InputError, match=words) as caught:
        GLNNClassifier(n_epochs=2).fit(X, y, **more)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"preset": "papr"}, "Did you mean 'paper'"),
        ({"settings": {"head": "gnc"}}, "Did you mean 'gcn'"),
        ({"settings": 3}, "settings must be a dictionary or FitSettings, got int"),
        ({"random_state": -1}, "random_state must be a seed"),
        ({"device": "gpu"}, "device must be"),
        ({"callbacks": 3}, "callbacks must be a list of Callback"),
        ({"tracks": ["learned"]}, "tracks must have one for data without a graph"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(params, words):
    with pytest.raises(InputError, match=words) as caught:
        GLNNClassifier(**params).fit(GOOD, LABELS)
    assert "\n" not in str(caught.value)


def test_a_pipeline_that_passes_frames_on_keeps_the_names_of_the_rows(wine):
    X, _, partial = wine
    names = [f"wine {k}" for k in range(len(X))]
    frame = pd.DataFrame(X, index=names).add_prefix("x")
    edges = pd.DataFrame({"source": names[:-1], "target": names[1:]})
    model = GLNNClassifier(n_epochs=2, random_state=0, calibrate=None)
    steps = make_pipeline(StandardScaler(), model).set_output(transform="pandas")
    steps.fit(frame, partial, glnnclassifier__graph=edges)
    assert steps[-1].feature_names_in_.tolist() == list(frame)
    assert steps[-1].prior_graph_[0, 1] > 0


def test_a_graph_alone_is_enough():
    pandas = pytest.importorskip("pandas")
    ring = [(k, (k + d) % 12) for k in range(12) for d in (1, 2, 3)]
    edges = [(f"{side}{a}", f"{side}{b}") for side in "xy" for a, b in ring] + [("x0", "y0")]
    frame = pandas.DataFrame(edges, columns=["source", "target"])
    names = [f"{side}{k}" for side in "xy" for k in range(12)]
    labels = pandas.Series([-1] * 24, index=names)
    labels[["x1", "x6", "y1", "y6"]] = [0, 0, 1, 1]
    quick = {"n_epochs": 40, "n_rounds": 1, "random_state": 0}
    clf = GLNNClassifier(**quick).fit(None, labels, graph=frame, folds=2)
    assert clf.choices_["signal"] == "structure"
    assert clf.transduction_.tolist() == [0] * 12 + [1] * 12
    np.testing.assert_allclose(clf.predict_proba(None), clf.label_distributions_)
    links = np.zeros((2, 24))
    links[0, :4] = links[1, 12:16] = 1
    assert clf.predict(None, links=links).tolist() == [0, 1]
    with pytest.warns(UserWarning, match="fewer than 10 hidden labels a class"):
        assert len(clf.predict_set(0.5, links=links)) == 2


@pytest.mark.parametrize(("y", "graph"), [(None, np.eye(3)), ([0, 1, -1], None)])
def test_without_features_labels_and_graph_are_needed(y, graph):
    with pytest.raises(InputError, match="X must not be None without"):
        GLNNClassifier().fit(None, y, graph=graph)


# Parameters


def test_single_settings_are_parameters_like_any_other(wine):
    shared = {"weights": Weights(ridge=1.0), "n_hidden": 4}
    one, two = GLNNClassifier("paper", settings=shared), GLNNClassifier("paper", settings=shared)
    assert clone(one).get_params() == one.get_params()
    assert one.get_params()["settings__n_hidden"] == 4
    one.set_params(settings__n_hidden=5, n_epochs=3)
    assert (one.settings["n_hidden"], two.settings["n_hidden"], one.n_epochs) == (5, 4, 3)
    for name in ("settings__dropout", "dropout"):
        assert GLNNClassifier().set_params(**{name: 0.1}).settings == {"dropout": 0.1}
    with pytest.raises(InputError, match=r"is a setting: give GLNNClassifier\(settings={'dropout'"):
        GLNNClassifier(dropout=0.1)
    whole = GLNNClassifier(settings=resolve_settings("paper")).set_params(settings__n_hidden=5)
    assert whole.settings == resolve_settings("paper", {"n_hidden": 5})
    X, _, partial = wine
    quick = {"random_state": 0, "n_epochs": 2, "n_rounds": 1, "calibrate": None}
    by_name = GLNNClassifier("paper", settings={"n_hidden": 5}, **quick).fit(X, partial)
    whole.set_params(**quick).fit(X, partial)
    np.testing.assert_array_equal(whole.raw_distributions_, by_name.raw_distributions_)


def test_single_settings_work_in_a_grid_search_over_a_pipeline(wine):
    X, y, _ = wine
    quick = {"n_epochs": 3, "n_rounds": 1, "random_state": 0, "calibrate": None}
    pipe = make_pipeline(StandardScaler(), GLNNClassifier(tracks=["features"], **quick))
    grid = {"glnnclassifier__settings__smoothness_weight": [0.0, 1.0]}
    search = GridSearchCV(pipe, grid, cv=2).fit(X, y)
    best = search.best_estimator_[-1]
    assert best.settings == {
        "smoothness_weight": search.best_params_["glnnclassifier__settings__smoothness_weight"]
    }
    assert pipe[-1].settings is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ("n_neighbours", "GLNNClassifier has no parameter 'n_neighbours'. Did you mean 'n_neighb"),
        ("n_hiden", "Did you mean 'n_hidden'"),
    ],
)
def test_an_unknown_parameter_is_refused_with_the_nearest_one(wrong, words):
    for call in (GLNNClassifier, GLNNClassifier().set_params):
        with pytest.raises(InputError, match=re.escape(words)) as caught:
            call(**{wrong: 3})
        assert "\n" not in str(caught.value) and "__init__" not in str(caught.value)
    with pytest.raises(TypeError):
        GLNNClassifier(**{wrong: 3})
    with pytest.raises(InputError, match="Did you mean 'dropout'"):
        GLNNClassifier().set_params(settings__dropuot=0.1)


def test_every_parameter_and_setting_is_documented():
    words = GLNNClassifier.__doc__.split("Attributes")[0]
    documented = [
        name
        for line in words.splitlines()
        if re.match("    [a-z]", line) and " : " in line
        for name in line.strip().split(" : ")[0].split(", ")
    ]
    assert set(documented) == set(GLNNClassifier().get_params())
    assert documented[:4] == ["preset", "n_neighbors", "class_weight", "tracks"]
    assert len(pydoc.getdoc(GLNNClassifier).splitlines()) < 100
    page = Path(__file__).parents[1] / "docs" / "howto" / "parameters.md"
    text = page.read_text(encoding="utf-8")
    assert not [name for name in SETTING_NAMES if f"`{name}" not in text and name not in documented]


@pytest.mark.parametrize(
    "state", [7, np.random.default_rng(7), np.random.RandomState(7), None], ids=str
)
def test_the_seed_that_was_used_is_saved(state, tmp_path):
    X = np.random.default_rng(0).normal(size=(8, 2))
    y = [0, 1] * 2 + [-1] * 4
    own = {"weights": Weights.without_prior(), "n_hidden": np.int64(5)}
    quick = {"n_epochs": 2, "n_rounds": 1, "tracks": ["features"]}
    model = GLNNClassifier(random_state=state, **quick, settings=own)
    model.fit(X, y).save(tmp_path / "m")
    loaded = GLNNClassifier.load(tmp_path / "m")
    assert loaded.random_state == loaded.seed_ == model.seed_
    assert loaded.settings == model.settings
    again = loaded.fit(X, y)
    np.testing.assert_array_equal(again.label_distributions_, model.label_distributions_)


# Report and networkx


@pytest.fixture(scope="module")
def page_fit():
    x = np.random.default_rng(0).normal(size=(20, 3)) + np.repeat([[0.0], [4.0]], 10, 0)
    frame = pd.DataFrame(x, columns=["a", "b", "c"], index=[f"p{k}" for k in range(20)])
    y = np.where(np.arange(20) % 4 == 0, np.repeat([0, 1], 10), -1)
    return GLNNClassifier(n_epochs=10, random_state=0).fit(frame, y), frame


def test_the_network_has_the_learned_graph_under_the_rows_names(page_fit):
    clf, frame = page_fit
    network = clf.to_networkx()
    assert list(network) == list(frame.index)
    weights = np.zeros((20, 20))
    for one, other, weight in network.edges(data="weight"):
        i, j = frame.index.get_loc(one), frame.index.get_loc(other)
        weights[i, j] = weights[j, i] = weight
    np.testing.assert_allclose(weights, clf.graph_.toarray() * (1 - np.eye(20)), rtol=1e-12)
    classes = [label for _, label in network.nodes(data="class")]
    assert classes == [str(label) for label in clf.transduction_]


@pytest.mark.parametrize("name", ["to_networkx", "report", "suggest_labels", "suspect_labels"])
def test_nothing_is_given_before_a_fit(name):
    with pytest.raises(NotFittedError):
        getattr(GLNNClassifier(), name)()
    with pytest.raises(NotFittedError):
        GLNNClassifier().set_calibration(None)


# Saving and loading


def test_a_saved_model_is_the_same_estimator_again(wine, fitted, tmp_path):
    X, _, _ = wine

    class Own(GLNNClassifier):
        pass

    fitted.save(tmp_path / "model")
    again = Own.load(tmp_path / "model")
    assert type(again) is Own and again.get_params() == fitted.get_params()
    rows = np.vstack([X, X[:5] + 0.01])
    np.testing.assert_array_equal(again.predict_proba(rows), fitted.predict_proba(rows))
    assert again.certificate_ == fitted.certificate_
    assert again.choices_ == fitted.choices_
    assert again.mixture_ == fitted.mixture_ and len(again.mixture_) > 1
    assert list(again.history_) == list(fitted.history_)
    assert (again.graph_ != fitted.graph_).nnz == 0
    np.testing.assert_array_equal(again.held_out_.probabilities, fitted.held_out_.probabilities)


def test_a_folder_that_cannot_be_made_and_a_model_without_a_fit_are_refused(fitted, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="must be writable"):
        fitted.save(tmp_path / "file" / "model")
    with pytest.raises(NotFittedError, match="not fitted yet"):
        GLNNClassifier().save(tmp_path / "model")


def test_rows_keep_their_names(tmp_path):
    y = np.arange(12) % 2
    x = np.random.default_rng(0).normal(size=(12, 2)) + y[:, None]
    frame = pd.DataFrame(x, index=[f"w{k}" for k in range(12)])
    frame.columns = ["a", "b"]
    quick = {"n_epochs": 5, "n_rounds": 1, "random_state": 0, "calibrate": None}
    seen = np.where(np.arange(12) < 6, y, -1)
    GLNNClassifier(**quick).fit(frame, seen).save(tmp_path / "model")
    again = GLNNClassifier.load(tmp_path / "model")
    assert again.row_names_.tolist() == list(frame.index)
    assert again.explain("w3").node == 3
    assert set(again.suggest_labels(2, among=[8, 9])["name"]) == {"w8", "w9"}
