import numpy as np
import pytest
import torch

from glnn.peers import ALONE


def test_alone_every_answer_is_ones_own_part():
    part = np.arange(3.0)
    assert ALONE.total(part) is part
    assert ALONE.total_number(2) == ALONE.largest(2.0) == ALONE.same(2.0) == 2.0
    assert ALONE.told(part, 0) is part
    assert ALONE.swapped([part])[0] is part
    tensor = torch.ones(2)
    assert ALONE.total_(tensor) is tensor
    assert (ALONE.rank, ALONE.size) == (0, 1)


def test_alone_there_is_nobody_to_rotate_with():
    with pytest.raises(AssertionError, match="nobody"):
        ALONE.rotated(torch.ones(1), torch.ones(1), 1)
