import numpy as np
import scipy.sparse as sp

from glnn.quality.plain import PLAIN_METHODS, NodeProblem

SPREADING = PLAIN_METHODS["label_spreading"]


def test_the_distributions_solve_the_linear_system(blocks):
    problem, _, _ = blocks
    graph = problem.graph.toarray()
    root = np.sqrt(np.maximum(graph.sum(1), 1))
    known = np.zeros((problem.n_nodes, 3))
    known[problem.train, problem.labels[problem.train]] = 1
    alpha = SPREADING.settings.alpha
    system = np.eye(problem.n_nodes) - alpha * graph / root / root[:, None]
    expected = np.linalg.solve(system, (1 - alpha) * known)
    expected /= expected.sum(1, keepdims=True)
    found = SPREADING.fit_predict(problem, seed=0).probabilities
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_a_node_that_no_label_reaches_gets_the_shares_of_the_classes():
    graph = sp.csr_matrix(([1.0, 1.0], ([0, 1], [1, 0])), shape=(4, 4))
    problem = NodeProblem(np.ones((4, 1)), graph, np.array([0, 0, 1, 1]), np.array([0, 2]))
    probabilities = SPREADING.fit_predict(problem, seed=0).probabilities
    np.testing.assert_allclose(probabilities[3], [0.5, 0.5])
    assert probabilities[1, 0] == 1


def test_rows_of_zeros_are_nobodys_neighbours():
    rng = np.random.default_rng(0)
    features = np.zeros((60, 40))
    classes = np.arange(60) % 2
    for row, kind in enumerate(classes[:56]):  # words of one half each; four rows stay empty
        features[row, 20 * kind + rng.choice(20, 5, replace=False)] = 1
    problem = NodeProblem(sp.csr_matrix(features), None, classes, np.arange(8))
    prediction = SPREADING.fit_predict(problem, seed=0)
    assert (prediction.classes[:56] == classes[:56]).mean() > 0.9
    np.testing.assert_allclose(prediction.probabilities[56:], 0.5)
