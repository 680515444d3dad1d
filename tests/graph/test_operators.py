import numpy as np
import pytest
import scipy.sparse as sp
import torch
from numpy.testing import assert_allclose
from sklearn.preprocessing import normalize
from torch.testing import assert_close

from glnn import distributed
from glnn.distributed import Partition
from glnn.graph import SparseAdjacency
from glnn.graph.operators import (
    GraphRows,
    PowerRows,
    RandomWalk,
    SpectralFeatures,
    add_loops,
    is_uninformative,
    normalize_graph_rows,
    random_walk_matrix,
)
from glnn.graph.prior import normalize_adjacency

# Rows of a graph


@pytest.fixture
def symmetric():
    """A random symmetric CSR matrix with loops, and some rows without entries."""
    rng = np.random.default_rng(0)
    dense = np.triu(rng.random((83, 83)) * (rng.random((83, 83)) < 0.08))
    dense[[5, 40], :] = dense[:, [5, 40]] = 0
    return sp.csr_matrix(dense + np.triu(dense, 1).T)


@pytest.mark.parametrize("at_once", [0, 2**24], ids=["few columns at a time", "all at once"])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_products_and_gradients_are_those_of_the_whole_graph(
    symmetric, together, monkeypatch, size, at_once
):
    monkeypatch.setattr(distributed, "MAX_FETCH_BYTES", at_once)
    n_nodes = symmetric.shape[0]
    x = torch.randn(n_nodes, 20, generator=torch.Generator().manual_seed(0), requires_grad=True)
    whole = SparseAdjacency.from_scipy(symmetric, dtype=torch.float32)
    (whole @ x + 2 * whole.sum_of_powers(x, 3)).square().sum().backward()

    def work(peers):
        part = Partition(n_nodes, peers)
        rows = GraphRows.of(symmetric[part.rows], part)
        own = x.detach()[part.rows].clone().requires_grad_()
        product = rows @ own
        (product + 2 * rows.sum_of_powers(own, 3)).square().sum().backward()
        return product.detach(), own.grad, rows.row_sums()

    products, gradients, sums = (torch.cat(parts) for parts in zip(*together(size, work)))
    assert_close(products, (whole @ x).detach())
    assert_close(gradients, x.grad)
    assert_close(sums, whole.row_sums())


@pytest.mark.parametrize("size", [1, 3])
def test_normalised_rows_are_those_of_the_whole_and_symmetric_to_the_bit(symmetric, together, size):
    def work(peers):
        part = Partition(83, peers)
        graph, adj_hat = normalize_graph_rows(symmetric[part.rows], part, dtype=torch.float64)
        every = torch.eye(83, dtype=torch.float64)[part.rows]
        return graph @ every, adj_hat @ every

    graph, adj_hat = (torch.cat(parts).numpy() for parts in zip(*together(size, work)))
    np.testing.assert_array_equal(graph, symmetric.toarray())
    np.testing.assert_allclose(adj_hat, normalize_adjacency(symmetric).toarray(), rtol=1e-14)
    np.testing.assert_array_equal(adj_hat, adj_hat.T)


# Random walk


@pytest.fixture
def graph():
    rng = np.random.default_rng(0)
    upper = np.triu((rng.random((11, 11)) < 0.3) * rng.random((11, 11)))
    matrix = upper + upper.T
    matrix[4] = matrix[:, 4] = 0  # a node alone
    return sp.csr_matrix(matrix)


@pytest.mark.parametrize("size", [1, 3])
def test_processes_have_the_rows_of_the_walk_of_the_whole_graph(graph, together, size):
    x = torch.randn(11, 3, generator=torch.Generator().manual_seed(0))

    def work(peers):
        part = Partition(11, peers)
        return [
            RandomWalk(block, part) @ x[part.rows]
            for block in (graph[part.rows], add_loops(graph[part.rows], part.start))
        ]

    for parts, whole in zip(zip(*together(size, work)), (graph, add_loops(graph))):
        expected = torch.from_numpy(random_walk_matrix(whole) @ x.double().numpy())
        assert_close(torch.cat(parts), expected.float())


# Spectral features


@pytest.fixture
def communities():
    """Two communities of 60 nodes, and a node that nobody knows."""
    rng = np.random.default_rng(0)
    same = (np.arange(121) % 2)[:, None] == (np.arange(121) % 2)[None]
    upper = np.triu(rng.random((121, 121)) < np.where(same, 0.2, 0.02), 1)
    upper[:, 120] = False
    return sp.csr_matrix((upper | upper.T).astype(np.float64))


def test_rows_are_those_of_the_leading_eigenvectors(communities):
    degree = np.asarray(communities.sum(1)).ravel()
    root = np.diag((degree + degree.mean()) ** -0.5)
    values, vectors = np.linalg.eigh(root @ communities.toarray() @ root)
    structure, rows = SpectralFeatures.of(communities, Partition(communities.shape[0]))
    width = 121 // 20
    order = np.argsort(-np.abs(values))
    leading = order[:2]  # of a clear gap: the iteration has found them whatever comes after
    part = structure.embedding[:, :width]
    found = np.linalg.lstsq(part, root @ vectors[:, leading], rcond=None)[0]
    assert structure.embedding.shape[1] == 2 * width
    assert_allclose(part @ found, root @ vectors[:, leading], atol=1e-6)
    sums = communities @ structure.embedding
    parts = [normalize(sums[:, :width]), normalize(sums[:, width:])]
    assert_allclose(rows, np.concatenate(parts, 1), atol=1e-12)


def test_the_second_part_starts_with_the_leading_eigenvectors_of_the_matrix_itself(communities):
    values, vectors = np.linalg.eigh(communities.toarray())
    leading = vectors[:, np.argsort(-np.abs(values))[:2]]
    structure, rows = SpectralFeatures.of(communities, Partition(communities.shape[0]))
    width = structure.embedding.shape[1] // 2
    found = structure.embedding[:, width : width + 2]
    assert_allclose(np.abs(leading.T @ found), np.eye(2), atol=1e-6)
    both = np.concatenate([np.ones((121, 3)), rows], 1)
    for features in (both, sp.csr_matrix(both)):
        others, second = structure.split(features)
        assert_allclose(second, rows[:, width:])
        assert others.shape == (121, 3 + width)


def test_a_new_node_with_the_links_of_another_has_its_features(communities):
    structure, rows = SpectralFeatures.of(communities, Partition(communities.shape[0]), size=2.5)
    assert_allclose(structure.transform(communities[:7], 7), rows[:7], atol=1e-12)
    width = structure.embedding.shape[1] // 2
    for part in (rows[:120, :width], rows[:120, width:]):
        assert_allclose(np.linalg.norm(part, axis=1), 2.5)
    assert_allclose(rows[120], 0)  # nobody speaks for it
    assert_allclose(structure.transform(None, 3), np.zeros((3, structure.embedding.shape[1])))


def test_processes_find_the_same_similarities(communities, together):
    _, whole = SpectralFeatures.of(communities, Partition(communities.shape[0]))

    def work(peers):
        part = Partition(121, peers)
        return SpectralFeatures.of(communities[part.rows], part)[1]

    rows = np.vstack(together(3, work))
    assert_allclose(rows @ rows.T, whole @ whole.T, atol=1e-8)


@pytest.mark.parametrize(
    ("features", "nothing"),
    [
        (sp.identity(5, format="csr"), True),
        (np.eye(5)[[3, 1, 0, 2, 4]] * 7, True),
        (sp.csr_matrix((5, 3)), True),
        (np.full((5, 2), 3.0), True),
        (sp.csr_matrix(np.full((5, 2), -3.0)), True),
        (np.eye(5) + np.eye(5)[::-1], False),
        (sp.csr_matrix(np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])), False),
    ],
)
def test_features_say_nothing_if_no_two_rows_share_a_column_or_all_are_equal(features, nothing):
    assert is_uninformative(features, Partition(features.shape[0])) is nothing


# Rows of a sum of powers


@pytest.mark.parametrize("n_steps", [0, 1, 5])
def test_rows_of_powers_propagate_to_their_nodes_and_their_transpose_from_them(symmetric, n_steps):
    part = Partition(symmetric.shape[0])
    adj_hat = normalize_graph_rows(symmetric, part, dtype=torch.float64)[1]
    nodes = torch.tensor([7, 0, 40])
    rows = PowerRows.of(normalize_graph_rows(symmetric, part)[1], nodes, n_steps, 83)
    x = torch.randn(83, 3, generator=torch.Generator().manual_seed(0))
    whole = adj_hat.sum_of_powers(x.double(), n_steps).float()
    assert_close(rows.sum_of_powers(x, n_steps), whole[nodes], atol=1e-5, rtol=1e-5)
    sources = torch.zeros(83, 3)
    sources[nodes] = x[:3]
    back = adj_hat.sum_of_powers(sources.double(), n_steps).float()
    assert_close(rows.sum_of_powers_transposed(x[:3], n_steps), back, atol=1e-5, rtol=1e-5)
