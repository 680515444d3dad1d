import numpy as np
import pytest
import scipy.sparse as sp

from glnn.report.layout import plane_layout


def two_cliques(n=20, n_alone=0):
    block = np.ones((n, n)) - np.eye(n)
    dense = np.kron(np.eye(2), block)
    dense[0, n] = dense[n, 0] = 1
    return sp.block_diag([dense, sp.csr_matrix((n_alone, n_alone))], format="csr")


def test_the_same_graph_has_the_same_places():
    np.testing.assert_array_equal(plane_layout(two_cliques()), plane_layout(two_cliques()))


def test_linked_nodes_are_nearer_than_others():
    places = plane_layout(two_cliques())
    first, second = places[:20], places[20:]
    spread = max(first.std(0).max(), second.std(0).max())
    assert np.linalg.norm(first.mean(0) - second.mean(0)) > 2 * spread


def test_nodes_without_an_edge_are_on_a_ring_sorted_by_group():
    groups = np.array([0] * 40 + [1, 0, 1, 0])
    places = plane_layout(two_cliques(n_alone=4), groups)
    alone = places[40:]
    radius = np.linalg.norm(alone, axis=1)
    np.testing.assert_allclose(radius, radius[0])
    assert np.linalg.norm(places[:40], axis=1).max() < radius[0]
    angle = np.mod(np.arctan2(alone[:, 1], alone[:, 0]), 2 * np.pi)
    assert angle[[1, 3]].max() < angle[[0, 2]].min()


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_tiny_graphs_have_finite_places(n):
    path = sp.diags([np.ones(n - 1)], [1], shape=(n, n))
    places = plane_layout(sp.csr_matrix(path + path.T))
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()


def test_separate_dense_parts_are_not_drawn_as_points():
    rng = np.random.default_rng(0)
    blocks = [sp.csr_matrix(np.triu(rng.random((120, 120)) < 0.2, 1)) for _ in range(4)]
    graph = sp.block_diag(blocks).astype(float)
    places = plane_layout(sp.csr_matrix(graph + graph.T))
    widths = [places[120 * k : 120 * (k + 1)].std(0).min() for k in range(4)]
    assert min(widths) > 0.03
