import copy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from glnn import GLNNClassifier
from glnn.exceptions import InputError, NotFittedError


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
def fitted():
    X, y, graph, _ = two_groups()
    return GLNNClassifier(n_epochs=30, calibrate=None, random_state=0).fit(X, y, graph=graph)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"preset": "paper"},
        {"reading": "channel"},
        {"reading": "frobenius", "n_rounds": 2},
        {"scaling": "none", "signal": "standardized"},
    ],
    ids=str,
)
@pytest.mark.parametrize("has_graph", [True, False])
def test_terms_of_every_link_of_a_fit_sum_to_its_weight(options, has_graph):
    X, y, graph, _ = two_groups()
    model = GLNNClassifier(n_epochs=5, calibrate=None, random_state=0, **options)
    model.fit(X, y, graph=graph if has_graph else None)
    for node in (0, 11, 39):
        for link in model.explain(node, n_labels=0).links:
            assert link.weight == model.graph_[node, link.node]
            assert_allclose(sum(link.terms.values()), link.weight, atol=1e-6)


def test_columns_of_a_link_are_a_part_of_its_similarity(fitted):
    nodes = fitted.fitted_nodes()
    links = fitted.explain(20, n_links=100, n_labels=0).links
    columns = nodes.column_shares(20, np.array([link.node for link in links]))
    assert_allclose(columns.sum(1), [link.terms["smoothness"] for link in links], atol=1e-6)


def test_a_saved_model_explains_and_suggests_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = GLNNClassifier.load(tmp_path / "model")
    assert loaded.explain(17).to_dict() == fitted.explain(17, refits=0).to_dict()
    assert loaded.suggest_labels(3).equals(fitted.suggest_labels(3))


def test_suggestions_are_unlabelled_and_differ(fitted):
    frame = fitted.suggest_labels(12)
    assert len(set(frame["node"])) == 12
    assert frame["node"].min() >= 8  # the first eight rows have labels
    assert (frame["gain"].diff().dropna() <= 1e-12).all()


@pytest.fixture
def named(fitted):
    """The fitted model, with names of its rows."""
    model = copy.copy(fitted)
    model.row_names_ = np.array([f"w{k}" for k in range(40)])
    return model


def test_a_row_can_be_asked_for_by_its_name(named):
    assert named.explain("w17").to_dict() == named.explain(17).to_dict()
    assert named.explain("w17", refits=1).to_dict() == named.explain(17, refits=1).to_dict()
    with pytest.raises(InputError, match=r"name or the number of a row, got 'w40'.*Did you mean"):
        named.explain("w40")


def test_rows_without_names_are_asked_for_by_number(fitted):
    with pytest.raises(InputError, match=r"number of a row, as the rows have no names"):
        fitted.explain("w17")


def test_suggestions_have_the_names_of_the_rows_beside_their_numbers(fitted, named):
    frame = named.suggest_labels(5)
    assert frame["name"].tolist() == [f"w{node}" for node in frame["node"]]
    assert frame.drop(columns="name").equals(fitted.suggest_labels(5))


def test_suggestions_can_be_asked_for_among_some_rows(fitted):
    assert set(fitted.suggest_labels(5, among=[3, 30, 31])["node"]) == {30, 31}


def test_validation_rows_do_not_speak_and_are_not_suggested():
    X, y, graph, _ = two_groups()
    model = GLNNClassifier(n_epochs=5, calibrate=None, random_state=0)
    model.fit(X, y, graph=graph, validation=[0, 1])
    assert {voice.node for voice in model.explain(30, refits=0).voices} == set(range(2, 8))
    assert model.suggest_labels(100)["node"].min() == 8


def test_refits_measure_what_fitting_without_the_label_changes():
    X, y, graph, _ = two_groups(1)
    model = GLNNClassifier(n_epochs=5, calibrate=None, random_state=0).fit(X, y, graph=graph)
    found = model.explain(25, n_labels=1, refits=1)
    node = found.voices[0].node
    fewer = y.copy()
    fewer[node] = ""
    without = GLNNClassifier(n_epochs=5, calibrate=None, random_state=0).fit(X, fewer, graph=graph)
    change = (model.label_distributions_ - without.label_distributions_)[25]
    assert found.is_measured
    assert_allclose(list(found.voices[0].effects.values()), change, atol=1e-12)


@pytest.mark.parametrize("calibrate", [None, "auto"])
def test_a_small_fit_leaves_every_label_out_once_for_all_rows(calibrate, monkeypatch):
    X, y, graph, _ = two_groups(1)
    model = GLNNClassifier(n_epochs=5, calibrate=calibrate, random_state=6).fit(X, y, graph=graph)
    found = [model.explain(node, n_labels=8) for node in (3, 25)]
    monkeypatch.setattr(model, "_refit", None)  # nothing is fitted again
    assert model.explain(3, n_labels=8) == found[0]
    assert {voice.node for voice in found[0].voices} == set(range(8)) - {3}
    effects = [abs(voice.effect) for voice in found[1].voices]
    assert effects == sorted(effects, reverse=True)
    voice = found[1].voices[0]
    again = GLNNClassifier(n_epochs=5, calibrate=calibrate, random_state=6)
    again.fit(X, np.where(np.arange(40) == voice.node, "", y), graph=graph)
    change = (model.label_distributions_ - again.label_distributions_)[25]
    assert_allclose(list(voice.effects.values()), change, atol=1e-12)


def test_fits_of_a_calibration_are_counted():
    X, y, graph, _ = two_groups()
    model = GLNNClassifier(n_epochs=5, random_state=0).fit(X, y, graph=graph)
    assert model._fits_of_one() == 2
    assert model.fit(X, y, graph=graph, validation=[0, 1])._fits_of_one() == 1
    model.set_params(calibrate="folds")
    assert model._fits_of_one() == 6
    model.set_params(calibrate=None)
    assert model._fits_of_one() == 1


def test_a_new_fit_forgets_what_labels_changed_in_the_one_before():
    X, y, graph, _ = two_groups(1)
    model = GLNNClassifier(n_epochs=5, calibrate=None, random_state=6)
    first = model.fit(X, y, graph=graph).explain(25)
    other = model.fit(X, np.roll(y, 2), graph=graph).explain(25)
    assert {voice.node for voice in first.voices} != {voice.node for voice in other.voices}
    assert other.is_measured


@pytest.mark.parametrize("class_weight", [None, {"no": 1.0, "yes": 2.0, "perhaps": 3.0}])
@pytest.mark.parametrize("has_validation", [False, True])
def test_the_only_label_of_a_class_can_be_left_out(has_validation, class_weight):
    X, y, *_ = two_groups()
    y = np.where(np.arange(40) == 5, "perhaps", y)
    validation = None
    if has_validation:
        y[[20, 21, 22]] = "no", "yes", "perhaps"
        validation = [20, 21, 22]
    model = GLNNClassifier(
        "paper", n_epochs=5, calibrate=None, random_state=0, class_weight=class_weight
    )
    model.fit(X, y, validation=validation)
    mine = next(voice for voice in model.explain(30).voices if voice.node == 5)
    assert_allclose(mine.effects["perhaps"], model.label_distributions_[30, 1])  # to zero


def test_without_one_of_two_labels_the_other_class_is_certain():
    X, *_ = two_groups()
    y = np.full(40, -1)
    y[:2] = 0, 1
    model = GLNNClassifier(n_epochs=5, calibrate=None, random_state=0).fit(X, y)
    voices = model.explain(30, refits=1).voices
    for voice in voices:
        assert_allclose(voice.effect, model.label_distributions_[30, voice.label])


def test_a_loaded_model_cannot_fit_again(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = GLNNClassifier.load(tmp_path / "model")
    assert not loaded.explain(17).is_measured
    with pytest.raises(InputError, match="refits must be 0"):
        loaded.explain(17, refits=1)


def test_the_column_that_decides_is_the_most_important(fitted):
    X, _, _, classes = two_groups(7)
    found = fitted.column_importance(X, np.array(["no", "yes"])[classes])
    assert found.names[0] == "1"
    assert found.loss[0] > 0.2
    assert found.accuracy > 0.8


def test_labels_that_the_fit_does_not_know_are_refused(fitted):
    X, *_ = two_groups(7)
    with pytest.raises(InputError, match="labels of the fit"):
        fitted.column_importance(X, ["no", "perhaps"] * 20)


def test_held_out_rows_may_be_of_one_class_alone(fitted):
    X, _, _, classes = two_groups(seed=3)
    found = fitted.column_importance(X[classes == 1], np.full(20, "yes"), n_columns=1)
    assert found.accuracy > 0.8
    with pytest.raises(InputError, match="one label a row"):
        fitted.column_importance(X, ["no", "yes"])


def test_names_of_columns_are_those_of_the_table():
    import pandas as pd

    X, y, _, _ = two_groups()
    table = pd.DataFrame(X, columns=["height", "age", "weight", "income"])
    model = GLNNClassifier(n_epochs=5, calibrate=None, random_state=0).fit(table, y)
    assert set(model.explain(30, n_labels=0).columns) <= set(table.columns)


def test_nothing_is_explained_before_the_fit():
    with pytest.raises(NotFittedError):
        GLNNClassifier().explain(0)
