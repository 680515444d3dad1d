import numpy as np

from glnn.parallel.linear import KnownLinear
from glnn.solver.implicit import Implicit
from glnn.solver.pairs import Pairs


def test_known_entries_join_constant_nodes_and_loops():
    pairs = Pairs(3, np.array([0, 0, 2]), np.array([0, 1, 2]))
    known = KnownLinear(np.zeros(3), constant=-1.0, pairs=pairs, known=np.array([1.0, 2.0, 3.0]))
    total = known + Implicit(np.array([1.0, 2.0, 3.0]), loop=0.5)
    assert total.on_pairs(pairs).tolist() == [2.5, 4.0, 8.5]
