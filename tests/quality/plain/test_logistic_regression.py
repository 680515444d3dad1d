import dataclasses

import numpy as np

from glnn.quality.plain import PLAIN_METHODS
from glnn.quality.plain.logistic_regression import (
    PENALTIES,
    LogisticRegressionSettings,
    chosen_penalty,
    logistic_probabilities,
)
from glnn.quality.plain.scaling import standardized


def test_it_does_not_depend_on_the_units_of_dense_features(blocks):
    problem, _, _ = blocks
    x = problem.features.toarray().astype(float)
    other = x * np.linspace(1, 9, x.shape[1]) + 3
    method = PLAIN_METHODS["logistic_regression"]
    plain, scaled = (
        method.fit_predict(dataclasses.replace(problem, features=f), seed=0).probabilities
        for f in (x, other)
    )
    np.testing.assert_allclose(plain, scaled, atol=1e-3)
    np.testing.assert_allclose(standardized(other), standardized(x), atol=1e-9)


def test_one_class_is_certain(blocks):
    problem, truth, _ = blocks
    single = dataclasses.replace(problem, train=problem.train[truth[problem.train] == 2])
    prediction = PLAIN_METHODS["logistic_regression"].fit_predict(single, seed=0)
    assert (prediction.probabilities[:, 2] == 1).all()


def test_the_chosen_penalty_has_the_lowest_loss_on_the_validation_nodes(blocks):
    problem, truth, _ = blocks
    x = problem.features.toarray().astype(float)
    losses = []
    for penalty in PENALTIES:
        settings = LogisticRegressionSettings(inverse_penalty=penalty)
        p = logistic_probabilities(x, problem.train, truth[problem.train], 3, settings)
        losses.append(-np.log(p[problem.validation, truth[problem.validation]]).sum())
    assert chosen_penalty(x, problem) == PENALTIES[int(np.argmin(losses))]


def test_pure_noise_gets_the_strongest_penalty_without_validation(blocks):
    problem = dataclasses.replace(blocks[0], validation=np.empty(0, dtype=int))
    noise = np.random.default_rng(0).normal(size=(problem.n_nodes, 50))
    assert chosen_penalty(noise, problem) == PENALTIES[0]


def test_a_single_labelled_node_leaves_a_choice(blocks):
    problem = dataclasses.replace(
        blocks[0], train=blocks[0].train[:1], validation=np.empty(0, dtype=int)
    )
    assert chosen_penalty(problem.features.toarray(), problem) in PENALTIES
