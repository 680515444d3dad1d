"""Tests of the baselines."""

import dataclasses
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.tree import DecisionTreeClassifier

from glnn.engine.trainer import Trainer
from glnn.exceptions import GraphWarning, InputError
from glnn.graph.prior import renormalized
from glnn.quality.rivals import (
    N_FOLDS,
    PENALTIES,
    RIVALS,
    BoostedTrees,
    BoostedTreesSettings,
    KnnGCN,
    LabelSpreading,
    LogisticRegression,
    LogisticRegressionSettings,
    Majority,
    NodeProblem,
    Prediction,
    TrainSettings,
    choose_penalty,
    choose_rivals,
    comparable_features,
    cosine_graph,
    expand_classes,
    join_neighbor_means,
    logistic_probabilities,
    normalize_row_sums,
    scale_features,
    standardize_columns,
)

# Registry

METHODS = [*RIVALS.values(), KnnGCN()]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
def test_labels_outside_training_and_validation_are_never_seen(method, blocks):
    problem, truth, test = blocks
    lies = truth.copy()
    lies[test] = (lies[test] + 1) % 3
    told = dataclasses.replace(problem, labels=lies)
    honest, lied = (method.fit_predict(p, seed=0).probabilities for p in (problem, told))
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
    assert isinstance(found[3].model, DecisionTreeClassifier)


def test_no_plain_method_imports_pytorch_geometric():
    code = "import sys, glnn.quality.rivals; sys.exit('torch_geometric' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_recorded_results_were_made_with_these_settings():
    recorded = (LogisticRegression(), LabelSpreading(), KnnGCN())
    assert {method.name: vars(method.settings) for method in recorded} == {
        "logistic_regression": {"inverse_penalty": None, "max_iter": 2000},
        "label_spreading": {"n_neighbors": 7, "max_iter": 100, "alpha": 0.2},
        "knn_gcn": {
            "n_epochs": 200,
            "learning_rate": 0.01,
            "weight_decay": 5e-4,
            "patience": None,
            "n_hidden": 16,
            "dropout": 0.5,
            "n_neighbors": 20,
        },
    }
    assert (PENALTIES, N_FOLDS) == ((0.1, 1.0, 10.0, 100.0, 1000.0), 3)


# Base classes


def test_the_predicted_class_is_the_most_probable():
    prediction = Prediction(np.array([[0.2, 0.8], [0.9, 0.1]]))
    assert prediction.classes.tolist() == [1, 0]


def test_settings_are_checked():
    with pytest.raises(InputError, match="n_epochs"):
        TrainSettings(n_epochs=0)
    with pytest.raises(InputError, match="patience"):
        dataclasses.replace(TrainSettings(), patience=0)


def test_unseen_classes_get_probability_zero():
    assert expand_classes(np.array([[1.0]]), np.array([1]), 2).tolist() == [[0.0, 1.0]]


def test_a_training_keeps_its_best_epoch_and_says_how_long_it_took(blocks):
    problem, _, _ = blocks
    method = KnnGCN()
    task = method.build(problem, 0)
    method.train(task, problem)
    validation = problem.validation_set()
    with torch.no_grad():
        kept = validation.measure(task.scores()[validation.nodes])[0].item()
    last = method.build(problem, 0)
    Trainer(n_epochs=200, learning_rate=0.01).fit(last, None)
    with torch.no_grad():
        assert kept < validation.measure(last.scores()[validation.nodes])[0].item()
    assert 0 < method.fit_predict(problem, 0).seconds < 60


# GCN


def test_the_network_is_two_products_with_the_renormalised_neighbour_graph(blocks):
    problem, _, _ = blocks
    task = KnnGCN().build(problem, seed=0)
    first, second = task.module.first, task.module.second
    graph = cosine_graph(problem.features, 20)
    adj_hat = torch.from_numpy(renormalized(graph).toarray()).float()
    x = torch.from_numpy(normalize_row_sums(problem.features).toarray()).float()
    hidden = torch.relu(adj_hat @ x @ first.weight + first.bias)
    logits = adj_hat @ hidden @ second.weight + second.bias
    torch.testing.assert_close(task.scores(), logits, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["logistic_regression", "label_spreading", "boosted_trees"])
def test_the_plain_methods_are_sensible_on_digits(name):
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train = np.concatenate([order[y[order] == c][:5] for c in range(10)])
    test = np.setdiff1d(order, train)
    problem = NodeProblem(x, None, y, train, n_classes=10)
    prediction = RIVALS[name].fit_predict(problem, seed=0)
    assert (prediction.classes[test] == y[test]).mean() > 0.7


# Label spreading

SPREADING = LabelSpreading()


def test_the_distributions_solve_the_linear_system(blocks):
    problem, _, _ = blocks
    graph = problem.graph.toarray()
    root = np.sqrt(np.maximum(graph.sum(1), 1))
    known = np.zeros((problem.n_nodes, 3))
    known[problem.train, problem.labels[problem.train]] = 1
    alpha = SPREADING.settings.alpha
    system = np.eye(problem.n_nodes) - alpha * graph / root / root[:, None]
    expected = np.linalg.solve(system, (1 - alpha) * known)
    expected /= expected.sum(1, keepdims=True)
    found = SPREADING.fit_predict(problem, seed=0).probabilities
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_a_node_that_no_label_reaches_gets_the_shares_of_the_classes():
    graph = sp.csr_matrix(([1.0, 1.0], ([0, 1], [1, 0])), shape=(4, 4))
    problem = NodeProblem(np.ones((4, 1)), graph, np.array([0, 0, 1, 1]), np.array([0, 2]))
    probabilities = SPREADING.fit_predict(problem, seed=0).probabilities
    np.testing.assert_allclose(probabilities[3], [0.5, 0.5])
    assert probabilities[1, 0] == 1


def test_rows_of_zeros_are_nobodys_neighbours():
    rng = np.random.default_rng(0)
    features = np.zeros((60, 40))
    classes = np.arange(60) % 2
    for row, kind in enumerate(classes[:56]):  # words of one half each; four rows stay empty
        features[row, 20 * kind + rng.choice(20, 5, replace=False)] = 1
    problem = NodeProblem(sp.csr_matrix(features), None, classes, np.arange(8))
    prediction = SPREADING.fit_predict(problem, seed=0)
    assert (prediction.classes[:56] == classes[:56]).mean() > 0.9
    np.testing.assert_allclose(prediction.probabilities[56:], 0.5)


# Logistic regression


def test_it_does_not_depend_on_the_units_of_dense_features(blocks):
    problem, _, _ = blocks
    x = problem.features.toarray().astype(float)
    other = x * np.linspace(1, 9, x.shape[1]) + 3
    method = LogisticRegression()
    plain, scaled = (
        method.fit_predict(dataclasses.replace(problem, features=f), seed=0).probabilities
        for f in (x, other)
    )
    np.testing.assert_allclose(plain, scaled, atol=1e-3)
    np.testing.assert_allclose(standardize_columns(other), standardize_columns(x), atol=1e-9)


def test_one_class_is_certain(blocks):
    problem, truth, _ = blocks
    single = dataclasses.replace(problem, train=problem.train[truth[problem.train] == 2])
    prediction = LogisticRegression().fit_predict(single, seed=0)
    assert (prediction.probabilities[:, 2] == 1).all()


def test_the_chosen_penalty_has_the_lowest_loss_on_the_validation_nodes(blocks):
    problem, truth, _ = blocks
    x = problem.features.toarray().astype(float)
    losses = []
    for penalty in PENALTIES:
        settings = LogisticRegressionSettings(inverse_penalty=penalty)
        p = logistic_probabilities(x, problem.train, truth[problem.train], 3, settings)
        losses.append(-np.log(p[problem.validation, truth[problem.validation]]).sum())
    assert choose_penalty(x, problem) == PENALTIES[int(np.argmin(losses))]


def test_pure_noise_gets_the_strongest_penalty_without_validation(blocks):
    problem = dataclasses.replace(blocks[0], validation=np.empty(0, dtype=int))
    noise = np.random.default_rng(0).normal(size=(problem.n_nodes, 50))
    assert choose_penalty(noise, problem) == PENALTIES[0]


def test_a_single_labelled_node_leaves_a_choice(blocks):
    problem = dataclasses.replace(
        blocks[0], train=blocks[0].train[:1], validation=np.empty(0, dtype=int)
    )
    assert choose_penalty(problem.features.toarray(), problem) in PENALTIES


# Boosted trees and neighbours


def test_boosted_trees_are_those_of_scikit_learn_on_the_best_columns_of_a_wide_table(rng):
    x, y = rng.normal(size=(80, 12)), np.arange(80) % 2
    x[:, 3] += 2 * y
    problem = NodeProblem(x, None, y, np.arange(60))
    narrow = dataclasses.replace(BoostedTrees(), settings=BoostedTreesSettings(max_columns=4))
    for method, columns in ((BoostedTrees(), np.arange(12)), (narrow, None)):
        if columns is None:
            columns = SelectKBest(k=4).fit(x[:60], y[:60]).get_support()
        model = HistGradientBoostingClassifier(random_state=0).fit(x[:60][:, columns], y[:60])
        expected = model.predict_proba(x[:, columns])
        np.testing.assert_allclose(method.fit_predict(problem, 0).probabilities, expected)
    assert BoostedTrees().describe_limits(problem) == ""
    assert "4 of 12 columns" in narrow.describe_limits(problem)


def test_neighbours_are_averaged_once_and_twice_in_every_storage(blocks):
    problem, _, _ = blocks
    dense = problem.features.toarray()
    walk = problem.graph.toarray() / np.maximum(problem.graph.toarray().sum(1), 1e-9)[:, None]
    expected = np.hstack([dense, walk @ dense, walk @ walk @ dense])
    found = join_neighbor_means(problem).features.toarray()
    np.testing.assert_allclose(found, expected, atol=1e-6)
    other = dataclasses.replace(problem, features=dense)
    np.testing.assert_allclose(join_neighbor_means(other).features, expected, atol=1e-6)


# Largest class


def test_everybody_gets_the_largest_class_and_its_share_of_the_labels(blocks):
    problem, truth, _ = blocks
    uneven = dataclasses.replace(problem, train=problem.train[:9])
    counts = np.bincount(truth[problem.train[:9]], minlength=3)
    prediction = Majority().fit_predict(uneven, seed=0)
    np.testing.assert_allclose(prediction.probabilities, np.tile(counts / 9, (90, 1)))
    assert (prediction.classes == counts.argmax()).all()


def test_a_class_without_labels_has_no_share(blocks):
    problem, truth, _ = blocks
    partial = dataclasses.replace(problem, train=problem.train[truth[problem.train] != 1])
    shares = Majority().predict(partial, 0)[0]
    assert shares[1] == 0
    assert shares.sum() == 1


# Nearest-neighbour graph


def test_links_go_to_the_highest_cosines():
    x = np.random.default_rng(0).random((20, 4))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -1)
    expected = np.zeros((20, 20))
    for i, row in enumerate(np.argsort(-cosine, axis=1)[:, :3]):
        expected[i, row] = 1
    graph = cosine_graph(x, 3).toarray()
    np.testing.assert_array_equal(graph, np.maximum(expected, expected.T))
    np.testing.assert_array_equal(graph, cosine_graph(sp.csr_matrix(x), 3).toarray())


def test_more_neighbours_than_nodes_link_all():
    assert cosine_graph(np.ones((3, 2)), 10).toarray().sum() == 6
    assert cosine_graph(np.ones((1, 2)), 10).shape == (1, 1)


# Problem


def tiny(**changes):
    given = {
        "features": np.eye(4),
        "graph": None,
        "labels": np.array([0, 1, 2, 1]),
        "train": np.array([0, 1]),
        "validation": np.array([3]),
        "n_classes": 3,
    }
    return NodeProblem(**(given | changes))


def test_labels_outside_training_and_validation_are_hidden():
    assert tiny().labels.tolist() == [0, 1, -1, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"train": np.array([], dtype=int)}, "at least one"),
        ({"validation": np.array([0])}, "must not share"),
        ({"labels": np.array([0, -1, 0, 0])}, "0 or more"),
        ({"labels": np.array([0, 1])}, "one for each of the 4 nodes"),
        ({"n_classes": 1}, "n_classes must be at least 2"),
        ({"graph": sp.eye(3)}, "one row for each of the 4 nodes"),
        ({"features": np.full((4, 2), np.nan)}, "finite"),
    ],
)
def test_a_wrong_problem_is_refused_in_one_line(changes, message):
    with pytest.raises(InputError, match=message) as caught:
        tiny(**changes)
    assert "\n" not in str(caught.value)


def test_a_one_way_graph_is_made_symmetric_and_said():
    one_way = sp.csr_matrix(([1.0], ([0], [1])), shape=(4, 4))
    with pytest.warns(GraphWarning, match="not symmetric"):
        problem = tiny(graph=one_way)
    assert problem.graph[1, 0] == problem.graph[0, 1] == 1


def test_without_validation_there_is_no_validation_set():
    assert tiny(validation=np.empty(0, dtype=int)).validation_set() is None
    assert tiny().validation_set().labels.tolist() == [1]


# Scaling of features


def test_sparse_and_dense_rows_are_divided_by_their_sum_alike():
    x = np.random.default_rng(0).integers(0, 4, (6, 5)).astype(float)
    sums = np.maximum(x.sum(1, keepdims=True), 1)
    np.testing.assert_allclose(normalize_row_sums(x), x / sums)
    np.testing.assert_allclose(normalize_row_sums(sp.csr_matrix(x)).toarray(), x / sums)


def test_negative_features_are_standardised_instead_of_divided_by_their_sum():
    x = np.array([[-1.0, 2.0], [1.0, 4.0]])
    np.testing.assert_allclose(normalize_row_sums(x), [[-1, -1], [1, 1]])


def test_sparse_columns_are_scaled_to_variance_one_but_not_shifted():
    x = sp.random(50, 4, density=0.4, random_state=0, format="csr")
    found = standardize_columns(x)
    np.testing.assert_allclose(found.toarray().std(0), 1)
    assert found.nnz == x.nnz


def test_dense_columns_and_sparse_rows_get_length_one():
    x = np.random.default_rng(0).random((7, 3))
    np.testing.assert_allclose((scale_features(x) ** 2).mean(0), 1)
    np.testing.assert_allclose((scale_features(sp.csr_matrix(x)).toarray() ** 2).sum(1), 1)


def test_words_are_left_to_the_methods_and_units_are_not():
    words = sp.csr_matrix(np.eye(4, dtype=np.float32))
    assert comparable_features(words) is words
    units = np.array([[1.0, 5.0, 1000.0], [2.0, 7.0, 3000.0], [3.0, 6.0, 2000.0]])
    np.testing.assert_allclose(comparable_features(units).std(0), 1, rtol=1e-6)
