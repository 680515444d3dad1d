import numpy as np
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.nn.features import Features
from glnn_lab.baselines import inputs


def test_edges_hold_both_directions_and_the_weights():
    graph = sp.csr_matrix(np.array([[0, 2.0, 0], [2.0, 0, 0], [0, 0, 0]]))
    edges = inputs.Edges.of(graph)
    assert edges.index.tolist() == [[0, 1], [1, 0]]
    assert edges.weight.tolist() == [2.0, 2.0]
    assert edges.n_nodes == 3


def test_the_input_map_multiplies_sparse_features_with_its_blocks():
    x = sp.random(7, 5, density=0.3, random_state=1, format="csr", dtype=np.float32)
    with inputs.isolated_rng(0):
        first = inputs.InputMap(5, 2, n_blocks=3)
    assert first.weight.shape == (5, 6)
    assert_close(first(Features.of(x)), torch.from_numpy(x.toarray()) @ first.weight)


def test_isolated_randomness_repeats_and_is_put_back():
    before = torch.get_rng_state()
    draws = []
    for _ in range(2):
        with inputs.isolated_rng(5):
            draws.append(torch.rand(3))
    assert torch.equal(*draws)
    assert torch.equal(before, torch.get_rng_state())


def test_seeds_drawn_from_equal_generators_are_equal():
    one, other = (inputs.draw_seed(torch.Generator().manual_seed(4)) for _ in range(2))
    assert one == other
