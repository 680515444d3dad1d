import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.testing import assert_close

from glnn.graph.pairs import Pairs
from glnn.graph.row_matrix import row_matrix
from glnn.graph.spread import spread
from glnn.objective import channel
from glnn.objective.channel import ChannelSmoothness

X = np.random.default_rng(0).standard_normal((6, 3))


def test_the_metric_of_a_new_node_is_the_negative_dual_point():
    term, dual = ChannelSmoothness(1.0, spread(X)), torch.tensor([1.0, -2.0, 0.5]).double()
    pairs = Pairs(term.signal.partition, *torch.triu_indices(6, 6))
    (metric,) = term.new_row(dual).metrics
    expected = (torch.from_numpy(X) * metric) @ torch.from_numpy(X).T
    assert_close(term.adjoint(-dual).on_pairs(pairs), expected[pairs.i, pairs.j])


def test_energies_of_the_identity_are_the_target():
    term = ChannelSmoothness(1.0, spread(X))
    loops = Pairs(term.signal.partition, torch.arange(6), torch.arange(6))
    ones = torch.ones(6, dtype=torch.float64)
    assert_close(term.on(loops).apply(ones), term.target)
    assert_close(term.image(loops.adjacency(ones)), term.target)


def test_many_channels_have_no_dense_matrix(monkeypatch):
    monkeypatch.setattr(channel, "WIDEST", 2)
    rows = spread(row_matrix(sp.csr_matrix(X)))
    pairs = Pairs(rows.partition, *torch.triu_indices(6, 6))
    assert ChannelSmoothness(1.0, rows).on(pairs).columns(slice(0, 2)) is None


@pytest.mark.parametrize("kind", ["channel", "channel of entries"])
def test_map_and_adjoint_belong_together(holds_adjoint, kind):
    holds_adjoint(kind)
