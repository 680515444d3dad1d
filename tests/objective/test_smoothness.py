import numpy as np
import torch
from torch.testing import assert_close

from glnn.graph.pairs import Pairs, SparseAdjacency, as_sharded_rows
from glnn.objective.smoothness import FrobeniusSmoothness

rng = np.random.default_rng(0)
LOW_RANK = rng.standard_normal((9, 3)) @ rng.standard_normal((3, 5))  # five columns of rank three


def all_pairs(term):
    return Pairs(term.signal.layout, *torch.triu_indices(9, 9))


def test_axes_without_signal_are_left_out_and_the_norm_is_the_same():
    term = FrobeniusSmoothness(1.0, as_sharded_rows(LOW_RANK))
    assert term.basis.shape == (5, 3)
    pairs = all_pairs(term)
    values = torch.rand(len(pairs), generator=torch.Generator().manual_seed(0)).double()
    misfit = term.pair_map(pairs).apply(values) - term.target
    assert_close(misfit.square().sum(), term.value(SparseAdjacency(pairs, values)))


def test_the_metric_of_a_new_node_reproduces_the_adjoint():
    term = FrobeniusSmoothness(1.0, as_sharded_rows(LOW_RANK))
    square = torch.rand(3, 3, generator=torch.Generator().manual_seed(1)).double()
    dual = (square + square.T).reshape(-1)
    (metric,) = term.new_row(dual).metrics
    pairs, x = all_pairs(term), torch.from_numpy(LOW_RANK)
    expected = (x @ metric @ x.T)[pairs.i, pairs.j]
    assert_close(term.adjoint(-dual).on_pairs(pairs), expected)
