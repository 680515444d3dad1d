import numpy as np
import pytest

from glnn.parallel.penalties import Shared
from glnn.peers import Partition
from glnn.solver.pairs import Pairs
from glnn.solver.penalties import Loops, RowSums


@pytest.mark.parametrize("penalty", [RowSums(83, 2.0), Loops(83, 3.0)])
def test_maps_over_spread_pairs_are_those_over_all(symmetric, together, penalty):
    whole = Pairs.union(83, [symmetric.nonzero()])
    values = whole.values_of(symmetric)
    y = np.linspace(-1, 1, penalty.target.size)

    def work(peers):
        mine = Partition(83, peers).pair_owner(whole.i, whole.j) == peers.rank
        shared = Shared(penalty, peers)
        own = shared.on(whole.select(mine))
        assert (shared.name, shared.weight) == (penalty.name, penalty.weight)
        np.testing.assert_allclose(own.apply(values[mine]), penalty.of_matrix(symmetric))
        np.testing.assert_allclose(own.squares(), penalty.on(whole).squares())
        np.testing.assert_array_equal(own.adjoint(y), penalty.on(whole).adjoint(y)[mine])
        none = shared.on(whole.select(mine & (whole.i < 0)))
        assert none.apply(np.empty(0)).dtype == none.squares().dtype == np.float64
        assert shared.largest_adjoint(y) == penalty.largest_adjoint(y)

    together(3, work)
