import numpy as np
import pytest
import torch

from glnn.peers import ALONE


def test_alone_every_answer_is_ones_own_part():
    part = np.arange(3.0)
    assert ALONE.all_reduce(part) is part
    assert ALONE.all_reduce(2.0) == ALONE.all_reduce(2.0, "max") == ALONE.broadcast(2.0) == 2.0
    assert ALONE.broadcast(part, 0) is part
    assert ALONE.all_gather(part)[0] is ALONE.all_to_all([part])[0] is part
    tensor = torch.ones(2)
    assert ALONE.all_reduce_(tensor) is tensor
    assert (ALONE.rank, ALONE.size) == (0, 1)


def test_alone_there_is_nobody_to_shift_to():
    with pytest.raises(AssertionError, match="nobody"):
        ALONE.ring_shift(torch.ones(1), torch.ones(1))
