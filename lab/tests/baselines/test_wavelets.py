import numpy as np
import scipy.sparse as sp
import torch
from scipy.linalg import expm
from torch.testing import assert_close

from glnn.graph.prior import normalized
from glnn_lab.baselines import wavelets


def laplacian(graph):
    return np.eye(graph.shape[0]) - normalized(graph).toarray()


def test_without_a_threshold_the_wavelets_are_the_matrix_exponential(make_blocks):
    graph = make_blocks(n_nodes=40, n_isolated=5)[0].graph
    exact = wavelets.ExactWavelets(graph, wavelets.heat(1.0), -np.inf)
    got = exact @ torch.eye(40)
    np.testing.assert_allclose(got, expm(-laplacian(graph)), atol=1e-6)


def test_the_polynomial_agrees_with_the_decomposition(make_blocks):
    graph = make_blocks(n_nodes=40, n_isolated=5)[0].graph
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    for function in (wavelets.heat(0.7), wavelets.inverse_heat(1.0), wavelets.heat_of_heat(1.0)):
        exact = wavelets.ExactWavelets(graph, function, -np.inf) @ x
        assert_close(wavelets.ChebyshevWavelets(graph, function) @ x, exact, atol=2e-5, rtol=1e-4)


def test_the_inverse_undoes_the_wavelets(make_blocks):
    graph = make_blocks(n_nodes=30)[0].graph
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(1))
    there = wavelets.ChebyshevWavelets(graph, wavelets.heat(1.0)) @ x
    back = wavelets.ChebyshevWavelets(graph, wavelets.inverse_heat(1.0)) @ there
    assert_close(back, x, atol=1e-4, rtol=1e-4)


def test_small_entries_are_left_out(make_blocks):
    graph = make_blocks(n_nodes=40)[0].graph
    dense = expm(-laplacian(graph))
    kept = wavelets.ExactWavelets(graph, wavelets.heat(1.0), 0.01) @ torch.eye(40)
    np.testing.assert_allclose(kept, np.where(dense >= 0.01, dense, 0), atol=1e-6)


def test_a_pair_is_made_once_for_equal_graphs():
    wavelets.wavelet_pair.cache_clear()
    graph = sp.csr_matrix(np.array([[0, 1.0], [1.0, 0]]))
    pairs = [
        wavelets.wavelet_pair(wavelets.GraphKey(g), 1.0, 1e-4, "released", 10)
        for g in (graph, graph.copy())
    ]
    assert pairs[0] is pairs[1]
