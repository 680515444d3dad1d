import numpy as np
import pytest
import torch
from torch.testing import assert_close

from glnn.graph.pairs import Pairs
from glnn.graph.spread import spread
from glnn.objective import frobenius
from glnn.objective.frobenius import FrobeniusSmoothness

rng = np.random.default_rng(0)
X = rng.standard_normal((9, 3)) @ rng.standard_normal((3, 5))  # five columns of rank three


def all_pairs(term):
    return Pairs(term.signal.partition, *torch.triu_indices(9, 9))


def test_axes_without_signal_are_left_out_and_the_norm_is_the_same():
    term = FrobeniusSmoothness(1.0, spread(X))
    assert term.basis.shape == (5, 3)
    pairs = all_pairs(term)
    values = torch.rand(len(pairs), generator=torch.Generator().manual_seed(0)).double()
    misfit = term.on(pairs).apply(values) - term.target
    assert_close(misfit.square().sum(), term.value(pairs.adjacency(values)))


def test_the_metric_of_a_new_node_reproduces_the_adjoint():
    term = FrobeniusSmoothness(1.0, spread(X))
    square = torch.rand(3, 3, generator=torch.Generator().manual_seed(1)).double()
    dual = (square + square.T).reshape(-1)
    (metric,) = term.new_row(dual).metrics
    pairs, x = all_pairs(term), torch.from_numpy(X)
    expected = (x @ metric @ x.T)[pairs.i, pairs.j]
    assert_close(term.adjoint(-dual).on_pairs(pairs), expected)


def test_many_axes_have_no_dense_matrix(monkeypatch):
    monkeypatch.setattr(frobenius, "WIDEST", 4)
    term = FrobeniusSmoothness(1.0, spread(X))
    assert term.on(all_pairs(term)).columns(slice(0, 2)) is None


def test_signals_of_zeros_have_nothing_to_say():
    term = FrobeniusSmoothness(1.0, spread(np.zeros((9, 2))))
    pairs = all_pairs(term)
    assert not term.on(pairs).apply(pairs.counts).any()


@pytest.mark.parametrize("kind", ["frobenius", "frobenius of entries"])
def test_map_and_adjoint_belong_together(holds_adjoint, kind):
    holds_adjoint(kind)


def test_the_adjoint_sees_the_symmetric_part_alone():
    term = FrobeniusSmoothness(1.0, spread(X))
    pairs = all_pairs(term)
    y = torch.from_numpy(rng.standard_normal((3, 3)))
    odd, whole = (y - y.T).reshape(-1), y.reshape(-1)
    for adjoint in (term.on(pairs).adjoint, lambda v: term.adjoint(v).on_pairs(pairs)):
        assert_close(adjoint(odd), torch.zeros(len(pairs)).double(), atol=1e-12, rtol=0)
        assert_close(adjoint(whole), adjoint(y.T.reshape(-1)))
