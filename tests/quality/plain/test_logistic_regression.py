import dataclasses

import numpy as np

from glnn.quality.plain import PLAIN_METHODS
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
