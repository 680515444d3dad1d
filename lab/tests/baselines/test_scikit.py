import dataclasses

import numpy as np
import scipy.sparse as sp

from glnn.quality.rivals import PENALTIES
from glnn_lab.baselines import BASELINES, NodeProblem
from glnn_lab.baselines.scikit import (
    LogisticRegressionSettings,
    choose_penalty,
    logistic_probabilities,
)


def path_problem(n_nodes, labels, train):
    ends = np.arange(n_nodes - 1)
    graph = sp.csr_matrix((np.ones(n_nodes - 1), (ends, ends + 1)), shape=(n_nodes, n_nodes))
    return NodeProblem(np.ones((n_nodes, 1)), graph + graph.T, labels, train)


def test_on_a_path_the_harmonic_labels_fall_linearly():
    labels = np.array([0, 0, 0, 1, 1])
    problem = path_problem(5, labels, np.array([0, 4]))
    probabilities = BASELINES["label_propagation"].fit_predict(problem, seed=0).probabilities
    np.testing.assert_allclose(probabilities[:, 0], [1, 0.75, 0.5, 0.25, 0], atol=0.01)


# Random forest

METHOD = BASELINES["random_forest"]


def test_it_does_not_depend_on_the_units_of_a_column(blocks):
    problem, _, _ = blocks
    x = problem.features.toarray().astype(float)
    other = x * 2.0 ** np.arange(x.shape[1])
    plain, scaled = (
        METHOD.fit_predict(dataclasses.replace(problem, features=f), seed=0).classes
        for f in (x, other)
    )
    assert np.array_equal(plain, scaled)


def test_it_finds_what_no_line_can_divide():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (200, 2))
    truth = (x[:, 0] * x[:, 1] > 0).astype(int)
    problem = NodeProblem(x, None, truth, np.arange(80))
    forest, line = (
        (BASELINES[name].fit_predict(problem, 0).classes == truth)[80:].mean()
        for name in ("random_forest", "logistic_regression")
    )
    assert forest > 0.85 > line


# Logistic regression


def test_the_chosen_penalty_has_the_lowest_loss_on_the_validation_nodes(blocks):
    problem, truth, _ = blocks
    x = problem.features.toarray().astype(float)
    losses = []
    for penalty in PENALTIES:
        settings = LogisticRegressionSettings(inverse_penalty=penalty)
        p = logistic_probabilities(x, problem.train, truth[problem.train], 3, settings)
        losses.append(-np.log(p[problem.validation, truth[problem.validation]]).sum())
    assert choose_penalty(x, problem) == PENALTIES[int(np.argmin(losses))]


def test_without_validation_noise_gets_the_strongest_penalty_and_one_label_any(blocks):
    problem = dataclasses.replace(blocks[0], validation=np.empty(0, dtype=int))
    noise = np.random.default_rng(0).normal(size=(problem.n_nodes, 50))
    assert choose_penalty(noise, problem) == PENALTIES[0]
    single = dataclasses.replace(problem, train=problem.train[:1])
    assert choose_penalty(noise, single) in PENALTIES
    assert BASELINES["logistic_regression"].fit_predict(single, 0).probabilities.max(1).min() == 1
