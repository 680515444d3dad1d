import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from scipy.linalg import expm
from torch.testing import assert_close

from glnn.exceptions import InputError
from glnn.graph.prior import normalize_adjacency
from glnn_lab.baselines import BASELINES, gwnn
from glnn_lab.baselines.gwnn import GWNN


def test_large_graphs_take_the_polynomial_to_the_same_logits(blocks, shortened):
    both = [
        shortened(BASELINES["gwnn"], n_exact=n, threshold=0.0).build(blocks[0], seed=0).scores()
        for n in (4000, 0)
    ]
    np.testing.assert_allclose(*(z.detach().numpy() for z in both), atol=1e-3)


def test_with_the_exact_inverse_and_filters_of_one_nothing_is_mixed(blocks, shortened):
    method = shortened(BASELINES["gwnn"], n_exact=0, inverse="exact")
    net = method.build(blocks[0], seed=0).module
    x = torch.randn(blocks[0].n_nodes, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(net.first(x), x, atol=1e-3, rtol=1e-3)


def test_an_unknown_inverse_is_refused(shortened):
    with pytest.raises(InputError, match="inverse must be one of"):
        shortened(BASELINES["gwnn"], inverse="exakt")


def test_the_filter_of_a_node_that_no_label_reaches_stays_one(make_blocks, shortened):
    problem, _, _ = make_blocks(n_isolated=20, across=0.0)
    method = shortened(BASELINES["gwnn"], n_epochs=30)
    task = method.build(problem, seed=0)
    method.train(task, problem)
    change = task.module.first.change.detach().ravel()
    alone = np.setdiff1d(np.arange(20), problem.train)
    assert not change[alone].any()
    assert change[problem.train].abs().min() > 0


def test_long_training_without_validation_keeps_the_features_of_isolated_nodes(make_blocks):
    problem, truth, test = make_blocks(n_isolated=45)
    last = dataclasses.replace(problem, validation=np.empty(0, dtype=int))
    settings = dataclasses.replace(BASELINES["gwnn"].settings, n_epochs=600)
    prediction = GWNN(settings).fit_predict(last, seed=0)
    alone = test[test < 45]
    assert (prediction.classes[alone] == truth[alone]).mean() > 0.6  # chance is 1/3


# Wavelets


def laplacian(graph):
    return np.eye(graph.shape[0]) - normalize_adjacency(graph).toarray()


def test_without_a_threshold_the_wavelets_are_the_matrix_exponential(make_blocks):
    graph = make_blocks(n_nodes=40, n_isolated=5)[0].graph
    exact = gwnn.ExactWavelets(graph, gwnn.heat(1.0), -np.inf)
    got = exact @ torch.eye(40)
    np.testing.assert_allclose(got, expm(-laplacian(graph)), atol=1e-6)


def test_the_polynomial_agrees_with_the_decomposition(make_blocks):
    graph = make_blocks(n_nodes=40, n_isolated=5)[0].graph
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    for function in (gwnn.heat(0.7), gwnn.inverse_heat(1.0), gwnn.heat_of_heat(1.0)):
        exact = gwnn.ExactWavelets(graph, function, -np.inf) @ x
        assert_close(gwnn.ChebyshevWavelets(graph, function) @ x, exact, atol=2e-5, rtol=1e-4)


def test_the_inverse_undoes_the_wavelets(make_blocks):
    graph = make_blocks(n_nodes=30)[0].graph
    x = torch.randn(30, 2, generator=torch.Generator().manual_seed(1))
    there = gwnn.ChebyshevWavelets(graph, gwnn.heat(1.0)) @ x
    back = gwnn.ChebyshevWavelets(graph, gwnn.inverse_heat(1.0)) @ there
    assert_close(back, x, atol=1e-4, rtol=1e-4)


def test_small_entries_are_left_out(make_blocks):
    graph = make_blocks(n_nodes=40)[0].graph
    dense = expm(-laplacian(graph))
    kept = gwnn.ExactWavelets(graph, gwnn.heat(1.0), 0.01) @ torch.eye(40)
    np.testing.assert_allclose(kept, np.where(dense >= 0.01, dense, 0), atol=1e-6)


def test_a_pair_is_made_once_for_equal_graphs():
    gwnn.wavelet_pair.cache_clear()
    graph = sp.csr_matrix(np.array([[0, 1.0], [1.0, 0]]))
    pairs = [
        gwnn.wavelet_pair(gwnn.GraphKey(g), 1.0, 1e-4, "released", 10)
        for g in (graph, graph.copy())
    ]
    assert pairs[0] is pairs[1]
