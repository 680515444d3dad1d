import torch
from torch.testing import assert_close

from glnn.objective.new_row import Coupling, RowShare, number


def shares():
    tied = Coupling(2.0, number(1), 1.0, 0.5)
    first = RowShare(1.0, 2.0, number(3), 4.0, 5.0, (torch.eye(2),), (tied,))
    second = RowShare(10.0, 20.0, torch.arange(3.0, dtype=torch.float64), 40.0)
    return first, second


def test_shares_add_up_field_by_field():
    first, second = shares()
    total = first + second + RowShare()
    assert (total.edge_curvature, total.loop_curvature) == (11.0, 22.0)
    assert (total.loop, total.prior) == (44.0, 5.0)
    assert total.edges.tolist() == [3.0, 4.0, 5.0]
    assert len(total.metrics) == len(total.couplings) == 1
    assert (RowShare() + RowShare()).edges is None


def test_a_share_comes_back_from_arrays_and_numbers():
    total = shares()[0] + shares()[1]
    back = RowShare.unpacked(*total.cpu().packed())
    assert_close(back.edges, total.edges)
    assert_close(back.metrics[0], total.metrics[0])
    assert back.couplings[0].edges.tolist() == [1.0]
    assert back.packed()[1] == total.packed()[1]
    assert RowShare.unpacked(*RowShare().packed()).edges is None
