import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from glnn.graph.prior import renormalized
from glnn.quality.plain import PLAIN_METHODS, NodeProblem
from glnn.quality.plain.neighbors import cosine_graph
from glnn.quality.plain.scaling import row_normalized


def test_the_network_is_two_products_with_the_renormalised_neighbour_graph(blocks):
    problem, _, _ = blocks
    task = PLAIN_METHODS["knn_gcn"].build(problem, seed=0)
    first, second = task.module.first, task.module.second
    graph = cosine_graph(problem.features, 20)
    adj_hat = torch.from_numpy(renormalized(graph).toarray()).float()
    x = torch.from_numpy(row_normalized(problem.features).toarray()).float()
    hidden = torch.relu(adj_hat @ x @ first.weight + first.bias)
    logits = adj_hat @ hidden @ second.weight + second.bias
    torch.testing.assert_close(task.scores(), logits, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("name", ["logistic_regression", "label_spreading", "knn_gcn"])
def test_the_plain_methods_are_sensible_on_digits(name):
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    train = np.concatenate([order[y[order] == c][:5] for c in range(10)])
    test = np.setdiff1d(order, train)
    problem = NodeProblem(x, None, y, train, n_classes=10)
    prediction = PLAIN_METHODS[name].fit_predict(problem, seed=0)
    assert (prediction.classes[test] == y[test]).mean() > 0.75
