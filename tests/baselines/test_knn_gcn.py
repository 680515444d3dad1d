import sys

import numpy as np
from sklearn.datasets import load_digits

from glnn.baselines import BASELINES, Problem

WITHOUT_GRAPH = ("logistic_regression", "label_spreading", "knn_gcn")


def test_the_controls_without_a_graph_are_sensible_on_digits(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_geometric.nn", None)
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train = np.concatenate([order[y[order] == c][:5] for c in range(10)])
    test = np.setdiff1d(order, train)
    problem = Problem(x, None, y, train, n_classes=10)
    for name in WITHOUT_GRAPH:
        prediction = BASELINES[name].fit_predict(problem, seed=0)
        assert (prediction.classes[test] == y[test]).mean() > 0.75, name
