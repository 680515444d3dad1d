import dataclasses

import numpy as np

from glnn_lab.baselines import BASELINES


def test_the_graph_is_not_looked_at(blocks, shortened):
    problem, _, _ = blocks
    method = shortened(BASELINES["mlp"], n_epochs=5)
    alone = dataclasses.replace(problem, graph=None)
    one, other = (method.fit_predict(p, seed=0).probabilities for p in (problem, alone))
    assert np.array_equal(one, other)
