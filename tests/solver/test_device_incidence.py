import numpy as np
import pytest
import torch

from glnn.solver.device_incidence import incidence
from glnn.solver.device_pairs import DevicePairs
from glnn.solver.penalties import Loops, RowSums


@pytest.mark.parametrize(("rows", "trace"), [(True, True), (True, False), (False, True)])
def test_the_matrices_are_the_maps_of_the_penalties(rows, trace, rng):
    ends = torch.from_numpy(rng.integers(0, 12, (2, 40)))
    pairs = DevicePairs.union(12, [(ends[0], ends[1])])
    host = pairs.to_host()
    chosen = [penalty(12, 1.0) for penalty, on in ((RowSums, rows), (Loops, trace)) if on]
    maps = [penalty.on(host) for penalty in chosen]
    spread, sums = incidence(pairs, rows=rows, trace=trace)
    values, y = rng.random(len(host)), rng.random(12 * rows + trace)
    found = torch.mv(sums, torch.from_numpy(values)).numpy()
    assert np.allclose(found, np.concatenate([m.apply(values) for m in maps]))
    parts = np.split(y, [12]) if rows and trace else [y]
    adjoint = sum(m.adjoint(part) for m, part in zip(maps, parts))
    assert np.allclose(torch.mv(spread, torch.from_numpy(y)).numpy(), adjoint)


def test_without_penalties_there_is_nothing_to_add():
    every = torch.arange(3)
    spread, sums = incidence(DevicePairs.union(3, [(every, every)]), rows=False, trace=False)
    assert not spread.to_dense().any()
    assert not sums.to_dense().any()
