import numpy as np
import scipy.sparse as sp

from glnn_lab.baselines import BASELINES, NodeProblem


def path_problem(n_nodes, labels, train):
    ends = np.arange(n_nodes - 1)
    graph = sp.csr_matrix((np.ones(n_nodes - 1), (ends, ends + 1)), shape=(n_nodes, n_nodes))
    return NodeProblem(np.ones((n_nodes, 1)), graph + graph.T, labels, train)


def test_on_a_path_the_harmonic_labels_fall_linearly():
    labels = np.array([0, 0, 0, 1, 1])
    problem = path_problem(5, labels, np.array([0, 4]))
    probabilities = BASELINES["label_propagation"].fit_predict(problem, seed=0).probabilities
    np.testing.assert_allclose(probabilities[:, 0], [1, 0.75, 0.5, 0.25, 0], atol=0.01)
