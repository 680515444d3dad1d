import dataclasses

import numpy as np

from glnn.quality.plain.logistic_regression import (
    LogisticRegressionSettings,
    logistic_probabilities,
)
from glnn_lab.baselines.embedding import PENALTIES, chosen_penalty


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
