import numpy as np
import scipy.sparse as sp

from glnn.baselines import BASELINES, Problem


def path_problem(n_nodes, labels, train):
    ends = np.arange(n_nodes - 1)
    graph = sp.csr_matrix((np.ones(n_nodes - 1), (ends, ends + 1)), shape=(n_nodes, n_nodes))
    return Problem(np.ones((n_nodes, 1)), graph + graph.T, labels, train)


def test_on_a_path_the_harmonic_labels_fall_linearly():
    labels = np.array([0, 0, 0, 1, 1])
    problem = path_problem(5, labels, np.array([0, 4]))
    probabilities = BASELINES["label_propagation"].fit_predict(problem, seed=0).probabilities
    np.testing.assert_allclose(probabilities[:, 0], [1, 0.75, 0.5, 0.25, 0], atol=0.01)


def test_a_node_that_no_label_reaches_gets_the_shares_of_the_classes():
    graph = sp.csr_matrix(([1.0, 1.0], ([0, 1], [1, 0])), shape=(4, 4))
    problem = Problem(np.ones((4, 1)), graph, np.array([0, 0, 1, 1]), np.array([0, 2]))
    for name in ("label_propagation", "label_spreading"):
        probabilities = BASELINES[name].fit_predict(problem, seed=0).probabilities
        np.testing.assert_allclose(probabilities[3], [0.5, 0.5])
        assert probabilities[1, 0] == 1


def test_rows_of_zeros_are_nobodys_neighbours():
    rng = np.random.default_rng(0)
    features = np.zeros((60, 40))
    classes = np.arange(60) % 2
    for row, kind in enumerate(classes[:56]):  # words of one half each; four rows stay empty
        features[row, 20 * kind + rng.choice(20, 5, replace=False)] = 1
    problem = Problem(sp.csr_matrix(features), None, classes, np.arange(8))
    for name in ("label_propagation", "label_spreading"):
        prediction = BASELINES[name].fit_predict(problem, seed=0)
        assert (prediction.classes[:56] == classes[:56]).mean() > 0.9
        np.testing.assert_allclose(prediction.probabilities[56:], 0.5)
