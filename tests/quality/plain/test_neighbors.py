import numpy as np
import scipy.sparse as sp

from glnn.quality.plain.neighbors import cosine_graph


def test_links_go_to_the_highest_cosines():
    x = np.random.default_rng(0).random((20, 4))
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosine = unit @ unit.T
    np.fill_diagonal(cosine, -1)
    expected = np.zeros((20, 20))
    for i, row in enumerate(np.argsort(-cosine, axis=1)[:, :3]):
        expected[i, row] = 1
    graph = cosine_graph(x, 3).toarray()
    np.testing.assert_array_equal(graph, np.maximum(expected, expected.T))
    np.testing.assert_array_equal(graph, cosine_graph(sp.csr_matrix(x), 3).toarray())


def test_more_neighbours_than_nodes_link_all():
    assert cosine_graph(np.ones((3, 2)), 10).toarray().sum() == 6
    assert cosine_graph(np.ones((1, 2)), 10).shape == (1, 1)
