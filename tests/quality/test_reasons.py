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
        for link in model.explain(node).links:
            assert link.weight == model.graph_[node, link.node]
            assert_allclose(sum(link.terms.values()), link.weight, atol=1e-6)


def test_columns_of_a_link_are_a_part_of_its_similarity(fitted):
    nodes = fitted.fitted_nodes()
    links = fitted.explain(20, n_links=100).links
    columns = nodes.column_shares(20, np.array([link.node for link in links]))
    assert_allclose(columns.sum(1), [link.terms["smoothness"] for link in links], atol=1e-6)


def test_a_saved_model_explains_and_suggests_the_same(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = GLNNClassifier.load(tmp_path / "model")
    assert loaded.explain(17).to_dict() == fitted.explain(17).to_dict()
    assert loaded.suggest_labels(3).equals(fitted.suggest_labels(3))


def test_suggestions_are_unlabelled_and_differ(fitted):
    frame = fitted.suggest_labels(12)
    assert len(set(frame["node"])) == 12
    assert frame["node"].min() >= 8  # the first eight rows have labels
    assert (frame["gain"].diff().dropna() <= 1e-12).all()


def test_suggestions_can_be_asked_for_among_some_rows(fitted):
    assert set(fitted.suggest_labels(5, among=[3, 30, 31])["node"]) == {30, 31}


def test_validation_rows_do_not_speak_and_are_not_suggested():
    X, y, graph, _ = two_groups()
    model = GLNNClassifier(n_epochs=5, calibrate=None, random_state=0)
    model.fit(X, y, graph=graph, validation=[0, 1])
    assert {voice.node for voice in model.explain(30).voices} == set(range(2, 8))
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


def test_a_loaded_model_cannot_fit_again(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    with pytest.raises(InputError, match="refits must be 0"):
        GLNNClassifier.load(tmp_path / "model").explain(17, refits=1)


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
    assert set(model.explain(30).columns) <= set(table.columns)


def test_nothing_is_explained_before_the_fit():
    with pytest.raises(NotFittedError):
        GLNNClassifier().explain(0)
