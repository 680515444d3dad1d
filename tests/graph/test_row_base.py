import numpy as np
import torch

from glnn.graph.row_base import BLOCK_BYTES, DEVICE_BYTES, block_bytes_of, entries_at_once
from glnn.graph.row_matrix import row_matrix


def test_a_device_that_is_not_the_host_takes_larger_blocks():
    host, device = torch.device("cpu"), torch.device("cuda")
    assert (block_bytes_of(host), block_bytes_of(device)) == (BLOCK_BYTES, DEVICE_BYTES)
    assert block_bytes_of(host, 5) == 5
    assert entries_at_once(device) > entries_at_once(host)


def test_an_array_that_may_not_be_written_is_copied():
    frozen = np.ones((2, 2))
    frozen.flags.writeable = False
    assert row_matrix(frozen).dense().sum() == 4
