import numpy as np
import pytest
import torch

from glnn.peers import ALONE, Partition, row_exchange
from glnn.peers.row_exchange import RowExchange

WANTED = {0: [0, 3, 11, 12], 1: [], 2: [1, 2, 5, 6, 7, 8, 16]}


def test_wanted_rows_arrive_in_order_from_whoever_has_them(together):
    whole = torch.arange(34.0).view(17, 2)

    def work(peers):
        part = Partition(17, peers)
        wanted = np.array(WANTED[peers.rank], dtype=np.int64)
        exchange = RowExchange(part, wanted)
        first, again = (exchange.fetched(scale * whole[part.rows]) for scale in (1.0, 2.0))
        assert torch.equal(again, 2 * first)
        return torch.equal(first, whole[wanted])

    assert all(together(3, work))


def test_alone_rows_are_there_already():
    x = torch.ones(4, 3)
    exchange = RowExchange(Partition(4, ALONE), np.arange(4))
    assert exchange.fetched(x) is x
    assert exchange.column_blocks(x) == [slice(0, 3)]


@pytest.mark.parametrize("size", [2, 4])
def test_what_is_fetched_takes_no_more_room_than_the_rows_that_are_here(
    together, monkeypatch, size
):
    monkeypatch.setattr(row_exchange, "AT_ONCE", 0)

    def work(peers):
        part = Partition(80, peers)
        x = torch.ones(part.n_rows, 64)
        exchange = RowExchange(part, np.arange(80))  # everything
        blocks = exchange.column_blocks(x)
        sizes = [exchange.fetched(x[:, columns]).numel() for columns in blocks]
        assert sum(sizes) == 80 * 64
        return max(sizes) <= x.numel(), [(block.start, block.stop) for block in blocks]

    fits, blocks = zip(*together(size, work))
    assert all(fits)
    assert all(block == blocks[0] for block in blocks)
