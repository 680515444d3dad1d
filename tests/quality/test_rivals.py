"""Methods to compare with."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from glnn.engine.settings import HeadSettings
from glnn.exceptions import InputError
from glnn.graph.prior import renormalized
from glnn.quality import rivals
from glnn.quality.rivals import (
    PENALTIES,
    RIVALS,
    NodeProblem,
    choose_rivals,
    choose_storage,
    gcn_task,
    join_neighbor_means,
    normalize_row_sums,
    scale_features,
)

# Registry


@pytest.mark.parametrize("method", RIVALS.values(), ids=list(RIVALS))
def test_labels_outside_training_and_validation_are_never_seen(method, blocks):
    problem, truth, test = blocks
    lies = truth.copy()
    lies[test] = (lies[test] + 1) % 3
    told = dataclasses.replace(problem, labels=lies)
    honest, lied = (method.fit_predict(p, 0) for p in (problem, told))
    np.testing.assert_array_equal(honest, lied)
    np.testing.assert_allclose(honest.sum(1), 1, atol=1e-6)


def test_with_a_graph_rivals_see_that_graph():
    without, given = (choose_rivals("auto", has_graph=has_graph) for has_graph in (False, True))
    assert [rival.name for rival in without] == list(RIVALS)[:4]
    assert [rival.name for rival in given] == list(RIVALS)
    assert [rival.needs_graph for rival in given] == [False] * 4 + [True] * 3
    assert choose_rivals(None, has_graph=True) == choose_rivals([], has_graph=True) == ()


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(InputError, match="Did you mean 'boosted_trees'"):
        choose_rivals(["boostedtrees"], has_graph=False)
    with pytest.raises(InputError, match="got 3 for 'mine'"):
        choose_rivals({"mine": 3}, has_graph=False)


def test_a_dictionary_adds_to_the_usual_rivals_or_replaces_one():
    own = {"tree": DecisionTreeClassifier(), "boosted_trees": DecisionTreeClassifier()}
    found = choose_rivals(own, has_graph=False, classes=np.arange(2))
    assert [rival.name for rival in found] == [*list(RIVALS)[:4], "tree"]
    assert isinstance(found[3].predict.args[0], DecisionTreeClassifier)


# GCN


def test_the_network_is_two_products_with_the_renormalised_graph(blocks):
    problem, _, _ = blocks
    task = gcn_task(problem, problem.graph, 0, HeadSettings())
    first, second = task.module.first, task.module.second
    adj_hat = torch.from_numpy(renormalized(problem.graph).toarray()).float()
    x = torch.from_numpy(normalize_row_sums(problem.features).toarray()).float()
    hidden = torch.relu(adj_hat @ x @ first.weight + first.bias)
    logits = adj_hat @ hidden @ second.weight + second.bias
    torch.testing.assert_close(task.scores(), logits, atol=1e-5, rtol=1e-4)


# Methods of scikit-learn


@pytest.mark.parametrize("name", ["logistic_regression", "label_spreading", "boosted_trees"])
def test_the_plain_methods_are_sensible_on_digits(name):
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train = np.concatenate([order[y[order] == c][:5] for c in range(10)])
    test = np.setdiff1d(order, train)
    problem = NodeProblem(x, None, y, train, n_classes=10)
    found = RIVALS[name].fit_predict(problem, 0).argmax(1)
    assert (found[test] == y[test]).mean() > 0.7


def test_the_distributions_solve_the_linear_system(blocks):
    problem, _, _ = blocks
    graph = problem.graph.toarray()
    root = np.sqrt(np.maximum(graph.sum(1), 1))
    known = np.zeros((problem.n_nodes, 3))
    known[problem.train, problem.labels[problem.train]] = 1
    alpha = 0.2
    system = np.eye(problem.n_nodes) - alpha * graph / root / root[:, None]
    expected = np.linalg.solve(system, (1 - alpha) * known)
    expected /= expected.sum(1, keepdims=True)
    found = rivals.label_spreading(problem, 0)
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_a_node_that_no_label_reaches_gets_the_shares_of_the_classes():
    graph = sp.csr_matrix(([1.0, 1.0], ([0, 1], [1, 0])), shape=(4, 4))
    problem = NodeProblem(np.ones((4, 1)), graph, np.array([0, 0, 1, 1]), np.array([0, 2]))
    probabilities = rivals.label_spreading(problem, 0)
    np.testing.assert_allclose(probabilities[3], [0.5, 0.5])
    assert probabilities[1, 0] == 1


def test_rows_of_zeros_are_nobodys_neighbours():
    rng = np.random.default_rng(0)
    features = np.zeros((60, 40))
    classes = np.arange(60) % 2
    for row, kind in enumerate(classes[:56]):  # words of one half each; four rows stay empty
        features[row, 20 * kind + rng.choice(20, 5, replace=False)] = 1
    problem = NodeProblem(sp.csr_matrix(features), None, classes, np.arange(8))
    found = rivals.label_spreading(problem, 0)
    assert (found.argmax(1)[:56] == classes[:56]).mean() > 0.9
    np.testing.assert_allclose(found[56:], 0.5)


# Logistic regression, boosted trees and the largest class


def test_logistic_regression_is_that_of_scikit_learn_with_the_best_penalty(blocks):
    problem, truth, _ = blocks
    x, y = scale_features(problem.features), truth[problem.train]
    models = [LogisticRegression(C=c, max_iter=2000).fit(x[problem.train], y) for c in PENALTIES]
    found = rivals.logistic_regression(problem, 0)
    assert any(np.allclose(found, model.predict_proba(x)) for model in models)
    noise = np.random.default_rng(0).normal(size=(problem.n_nodes, 50))
    noisy = dataclasses.replace(problem, features=noise)
    strongest = LogisticRegression(C=PENALTIES[0]).fit(scale_features(noise)[problem.train], y)
    expected = strongest.predict_proba(scale_features(noise))
    np.testing.assert_allclose(rivals.logistic_regression(noisy, 0), expected, atol=1e-4)


@pytest.mark.parametrize("name", ["logistic_regression", "boosted_trees", "majority"])
def test_one_class_is_certain_and_a_class_with_one_label_is_allowed(name, blocks):
    problem, truth, _ = blocks
    single = dataclasses.replace(problem, train=problem.train[truth[problem.train] == 2])
    assert (RIVALS[name].fit_predict(single, 0)[:, 2] == 1).all()
    of_class = [problem.train[truth[problem.train] == c] for c in range(3)]
    rare = dataclasses.replace(problem, train=np.concatenate([*of_class[:2], of_class[2][:1]]))
    found = RIVALS[name].fit_predict(rare, 0)
    np.testing.assert_allclose(found.sum(1), 1, atol=1e-6)
    if name == "majority":
        np.testing.assert_allclose(found[0], np.bincount(truth[rare.train]) / len(rare.train))


def test_boosted_trees_use_the_best_columns_of_a_wide_table(rng, monkeypatch):
    monkeypatch.setattr(rivals, "MAX_COLUMNS", 4)
    x, y = rng.normal(size=(80, 12)), np.arange(80) % 2
    x[:, 3] += 2 * y
    problem = NodeProblem(x, None, y, np.arange(60))
    columns = SelectKBest(k=4).fit(x[:60], y[:60]).get_support()
    model = HistGradientBoostingClassifier(random_state=0).fit(x[:60][:, columns], y[:60])
    found = rivals.boosted_trees(problem, 0)
    np.testing.assert_allclose(found, model.predict_proba(x[:, columns]))
    assert "4 of 12 columns" in RIVALS["boosted_trees"].describe_limits(problem)
    assert RIVALS["logistic_regression"].describe_limits(problem) == ""


def test_neighbours_are_averaged_once_and_twice_in_every_storage(blocks):
    problem, _, _ = blocks
    dense = problem.features.toarray()
    walk = problem.graph.toarray() / np.maximum(problem.graph.toarray().sum(1), 1e-9)[:, None]
    expected = np.hstack([dense, walk @ dense, walk @ walk @ dense])
    found = join_neighbor_means(problem).features.toarray()
    np.testing.assert_allclose(found, expected, atol=1e-6)
    other = dataclasses.replace(problem, features=dense)
    np.testing.assert_allclose(join_neighbor_means(other).features, expected, atol=1e-6)


def test_features_are_stored_the_same_way_however_they_were_given():
    full = np.random.default_rng(0).normal(size=(5, 4))
    for given in (full, sp.csr_matrix(full)):
        np.testing.assert_array_equal(choose_storage(given), full)
    for given in (np.eye(4), sp.csr_matrix(np.eye(4))):
        assert sp.issparse(choose_storage(given))
