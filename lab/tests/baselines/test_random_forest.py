import dataclasses

import numpy as np

from glnn_lab.baselines import BASELINES, NodeProblem

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
