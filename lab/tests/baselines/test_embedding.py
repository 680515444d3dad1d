import numpy as np
import pytest

from glnn.quality.plain.logistic_regression import (
    LogisticRegressionSettings,
    chosen_penalty,
    logistic_probabilities,
)
from glnn_lab.baselines.embedding import embedding_logits


@pytest.mark.parametrize("penalty", [None, 10.0])
def test_it_is_the_logarithm_of_a_logistic_regression(blocks, penalty):
    problem, truth, _ = blocks
    z = problem.features.toarray().astype(float)
    settings = LogisticRegressionSettings(inverse_penalty=penalty or chosen_penalty(z, problem))
    p = logistic_probabilities(z, problem.train, truth[problem.train], 3, settings)
    np.testing.assert_allclose(embedding_logits(z, problem, penalty).exp().numpy(), p, rtol=1e-6)
