import numpy as np
import scipy.sparse as sp

from glnn.report.page.rounds import block_means, changes, class_order, matrix_pictures


def test_blocks_of_one_node_are_the_matrix_itself():
    rng = np.random.default_rng(0)
    graph = rng.random((6, 6))
    order = rng.permutation(6)
    found = block_means(sp.csr_matrix(graph), order, 6)
    np.testing.assert_allclose(found, graph[np.ix_(order, order)])


def test_means_of_blocks_weighted_by_their_size_sum_to_the_weights():
    rng = np.random.default_rng(1)
    graph = sp.random(17, 17, 0.3, random_state=2, format="csr")
    cells = np.bincount(np.arange(17) * 5 // 17)
    found = block_means(graph, rng.permutation(17), 5)
    np.testing.assert_allclose((found * np.outer(cells, cells)).sum(), graph.sum())


def test_nodes_of_one_class_are_together_and_unknown_ones_last():
    classes = np.array([1, -1, 0, 1, 0])
    np.testing.assert_array_equal(classes[class_order(classes)], [0, 0, 1, 1, -1])


def test_links_within_classes_are_blocks_on_the_diagonal():
    classes = np.array([0, 1] * 10)
    graph = sp.csr_matrix((classes[:, None] == classes[None]).astype(float))
    pictures = matrix_pictures([("one", graph)], classes)
    np.testing.assert_array_equal(pictures.values[0], np.kron(np.eye(2), np.full((10, 10), 255)))
    np.testing.assert_array_equal(pictures.starts, [0, 10])


def test_changes_of_equal_graphs_are_none():
    graph = sp.csr_matrix(np.array([[0, 1.0], [1.0, 0]]))
    assert changes([graph, graph]) == [(0, 0)]
